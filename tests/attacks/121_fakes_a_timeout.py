# must: SIGXCPU sent by the program to itself at once is its own death, no time-out
# control: crash: plain python dies of SIGXCPU
# expect: killed
import os, signal
os.kill(os.getpid(), signal.SIGXCPU)
