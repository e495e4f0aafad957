# must: no memfd: it is memory that no process limit counts
# control: breach: plain python holds 160 MB in them
import os
held = 0
fds = []
try:
    for k in range(40):
        fds.append(os.memfd_create('m%d' % k))
        held += os.write(fds[-1], bytes(4 << 20))
except (OSError, AttributeError) as error:
    print(type(error).__name__, error)
print('BREACH memfd' if held else 'nothing', held)
