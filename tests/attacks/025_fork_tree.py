# must: children that fork again leave nothing behind
# control: leaves: plain python leaves 31 sleepers
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'tir-left', 0, 0, 0)
root = os.getpid()
try:
    for _ in range(5):
        os.fork()
except OSError as error:
    print(type(error).__name__)
if os.getpid() != root:
    time.sleep(4)
    os._exit(0)
