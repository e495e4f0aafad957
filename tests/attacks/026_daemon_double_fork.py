# must: a daemon (fork, setsid, fork) does not outlive the call and writes nothing later
# control: leaves: the daemon of plain python lives on
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, b'tir-left', 0, 0, 0)
try:
    first = os.fork()
except OSError as error:
    sys.exit(type(error).__name__)
if first == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 256)
        time.sleep(1)
        open('@CAN@/keep/late.txt', 'w').close()
        time.sleep(3)
    os._exit(0)
os.waitpid(first, 0)
print('parent ends')
