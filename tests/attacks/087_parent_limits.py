# must: limits and priorities of other processes can't be changed
# control: breach: plain python lowers its parent's
import os, resource
for pid in (os.getppid(), @PPID@):
    for name, act in (
        ('prlimit', lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]))),
        ('priority', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19)),
        ('affinity', lambda: os.sched_setaffinity(pid, {min(os.sched_getaffinity(pid))})),
        ('policy', lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))),
        ('look', lambda: resource.prlimit(pid, resource.RLIMIT_CPU)),
    ):
        try:
            act()
            print('BREACH', name, pid)
        except OSError as error:
            print(name, type(error).__name__)
