# must: a report channel that is full does not hang the end of the call
# control: pool: the pipe of a naive worker stays full, and its next report is lost
import os
sent = 0
for fd in range(3, 64):
    try:
        os.set_blocking(fd, False)
        for _ in range(64):
            sent += os.write(fd, b'[' * 65536)
    except OSError:
        pass
    try:
        os.set_blocking(fd, True)
    except OSError:
        pass
print('stuffed')
