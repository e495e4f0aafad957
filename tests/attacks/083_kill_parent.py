# must: the process that forked this one can't be killed or stopped; the next call works
# control: breach: the parent of plain python dies
import os, signal
for pid in (@PPID@, os.getppid()):
    for number in (signal.SIGSTOP, signal.SIGKILL):     # the kernel spares the first process of all
        try:
            os.kill(pid, number)
            print('BREACH signalled' if pid != 1 else 'sent to', pid, number, flush=True)
        except OSError as error:
            print(type(error).__name__)
