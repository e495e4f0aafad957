# must: no signal reaches any other process, by any call
# control: breach: plain python may signal its own kind (signal 0: nothing is harmed)
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
reached = []
for pid in [1, 2, @PPID@, os.getppid()] + list(range(max(2, os.getpid() - 60), os.getpid())):
    for name, act in (('kill', lambda: libc.kill(pid, 0)), ('tgkill', lambda: libc.syscall(234, pid, pid, 0) if os.uname().machine == 'x86_64' else -1), ('tkill', lambda: libc.syscall(200, pid, 0) if os.uname().machine == 'x86_64' else -1), ('sigqueue', lambda: libc.sigqueue(pid, 0, 0)), ('group', lambda: libc.killpg(pid, 0) if pid > 1 else -1)):
        if pid != os.getpid() and act() == 0:
            reached.append((name, pid))
if libc.kill(-1, 0) == 0:
    reached.append(('everyone', -1))
print('BREACH reached' if reached else 'nobody reached', reached[:8])
