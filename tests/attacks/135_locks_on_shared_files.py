# must: no lock is taken on a file that other processes use too
# control: breach: plain python locks a file of the interpreter
import fcntl, os
import numpy
for path in (os.__file__, numpy.__file__, '/dev/null', '/usr/lib', '@CAN@/secret.txt'):
    try:
        fd = os.open(path, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        print('BREACH locked', path)
    except OSError as error:
        print(path, type(error).__name__)
