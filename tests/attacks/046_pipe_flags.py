# must: flags and sizes set on the output pipes do no harm to who reads them
# control: none: the pipes of the control die with it
# keeps: flags set
import fcntl, os
print('flags set', flush=True)
for fd in (0, 1, 2, 3):
    for command, value in ((fcntl.F_SETFL, os.O_NONBLOCK), (1031, 4096), (fcntl.F_SETOWN, os.getpid()), (fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)):
        try:
            fcntl.fcntl(fd, command, value)
        except OSError:
            pass
