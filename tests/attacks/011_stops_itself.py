# must: a program that stops itself (SIGSTOP) is killed at the wall-clock limit
# control: overruns: plain python stays stopped
# expect: timeout
# keeps: stopping
import os, signal
print('stopping', flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
