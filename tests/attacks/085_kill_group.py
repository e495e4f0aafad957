# must: killing one's own process group kills nothing but the call
# control: pool: a naive worker dies with it
import os, signal
print('group', os.getpgrp() == os.getpid(), flush=True)
os.kill(0, signal.SIGKILL)
