# must: fork refused, or all of it dead at the end
# control: breach: plain python forks 60 times
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'tir-left', 0, 0, 0)   # PR_SET_NAME: children inherit it
made = 0
try:
    for _ in range(60):
        if os.fork() == 0:
            time.sleep(4)
            os._exit(0)
        made += 1
except OSError as error:
    print(type(error).__name__, error)
print('BREACH forked' if made else 'no fork', made)
