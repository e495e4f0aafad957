# must: the ties by which a call dies with its sandbox, unset by the program, don't let it live on
# control: overruns: plain python unties itself and stays
# expect: timeout
import ctypes, os
libc = ctypes.CDLL(None)
print(libc.prctl(1, 0, 0, 0, 0), libc.prctl(36, 1, 0, 0, 0), libc.prctl(4, 1, 0, 0, 0), libc.prctl(15, b'kthreadd', 0, 0, 0))
for act in (os.setsid, os.setpgrp, lambda: os.setpgid(0, os.getppid())):
    try:
        act()
    except OSError as error:
        print(type(error).__name__)
while True:
    pass
