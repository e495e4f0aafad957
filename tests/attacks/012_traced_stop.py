# must: a stop under PTRACE_TRACEME is not taken for the end of the program
# control: none: it aims at the wait of the process that forked it, plain python has none of ours
# expect: timeout
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
print('traceme', libc.ptrace(0, 0, 0, 0), flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
while True:
    pass
