# must: a program that ends itself by SIGKILL was killed; it is no time-out and no dead sandbox
# control: crash: plain python dies of SIGKILL
# expect: killed
# keeps: last words
import os, signal
print('last words', flush=True)
os.kill(os.getpid(), signal.SIGKILL)
