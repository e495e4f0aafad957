# must: descriptors closed and exchanged by the program confuse nobody
# control: pool: a naive worker loses its report
import os
print('before', flush=True)
for fd in range(3, 256):
    try:
        os.dup2(1, fd)
    except OSError:
        break
for fd in (0, 1, 2):
    try:
        os.close(fd)
    except OSError:
        pass
