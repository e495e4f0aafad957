# must: no raised priority, real-time class or disk class for itself
# control: root breach: plain python of root gets them
import ctypes, os
libc = ctypes.CDLL(None)
def real_time_disk():
    numbers = {'x86_64': 251, 'aarch64': 30}
    if libc.syscall(numbers[os.uname().machine], 1, 0, 1 << 13) != 0:
        raise PermissionError
for name, act in (
    ('nice', lambda: os.nice(-5)),
    ('setpriority', lambda: os.setpriority(os.PRIO_PROCESS, 0, -5)),
    ('fifo', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))),
    ('rr', lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))),
    ('disk', real_time_disk),
):
    try:
        act()
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        print('BREACH', name)
    except OSError as error:
        print(name, type(error).__name__)
