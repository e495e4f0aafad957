# must: the main thread ends alone and a second thread burns on: the whole is killed in time
# control: overruns: plain python burns on behind a zombie
# expect: timeout killed
# needs: x86_64
import ctypes, threading, time
def burn():
    end = time.monotonic() + 20
    while time.monotonic() < end:
        pass
threading.Thread(target=burn).start()
ctypes.CDLL(None).syscall(60, 0)   # exit of one thread, not exit_group
