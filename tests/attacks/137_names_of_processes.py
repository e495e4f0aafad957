# must: which other processes there are can't be probed
# control: breach: plain python sees who lives by asking for groups and policies
import os
me, seen = os.getpid(), {}
for pid in [1, @PPID@, os.getppid()]:
    for name, act in (('group', os.getpgid), ('session', os.getsid), ('policy', os.sched_getscheduler), ('affinity', os.sched_getaffinity), ('nice', lambda n: os.getpriority(os.PRIO_PROCESS, n)), ('signal', lambda n: os.kill(n, 0))):
        try:
            act(pid)
            if pid not in (me, 0):
                seen.setdefault(pid, []).append(name)
        except OSError:
            pass
harness = seen.get(@PPID@)
print('BREACH the harness shows' if harness else 'the harness is not seen', harness, len(seen))
