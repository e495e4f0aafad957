# must: rare kernel interfaces are refused before their code runs
# control: breach: plain python reaches most (the arguments are void)
# needs: x86_64
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
refused = (errno.EPERM, errno.ENOSYS, errno.EACCES)
calls = dict(
    io_uring_setup=425, io_uring_enter=426, io_uring_register=427, bpf=321, userfaultfd=323, perf_event_open=298, fanotify_init=300,
    fanotify_mark=301, add_key=248, request_key=249, keyctl=250, pidfd_open=434, pidfd_send_signal=424, process_madvise=440, kcmp=312,
    fsopen=430, fsmount=432, fspick=433, open_tree=428, move_mount=429, mount_setattr=442, pivot_root=155, quotactl=179, quotactl_fd=443,
    swapon=167, swapoff=168, acct=163, init_module=175, finit_module=313, delete_module=176, kexec_load=246, kexec_file_load=320,
    iopl=172, ioperm=173, modify_ldt=154, sethostname=170, setdomainname=171, syslog=103, migrate_pages=256,
    move_pages=279, mbind=237, set_mempolicy=238, memfd_secret=447, vmsplice=278, lookup_dcookie=212, name_to_handle_at=303,
    shmget=29, semget=64, msgget=68, mq_open=240, inotify_init1=294, reboot=169, process_mrelease=448,
    remap_file_pages=216, nfsservctl=180, uselib=134, ustat=136, sysfs=139, personality=135, adjtimex=159, clock_adjtime=305,
)
reached = []
for name, number in calls.items():
    args = {'quotactl': (0x80000700, 0, 0, 0), 'personality': (0x0040000,), 'modify_ldt': (0, 0, 0), 'syslog': (10, 0, 0), 'clock_adjtime': (0, 0), 'shmget': (0, 0, 0), 'msgget': (0x7e57, 0)}.get(name, (-1, -1, -1, -1, -1, -1))
    got = libc.syscall(number, *(ctypes.c_long(a) for a in args))
    code = ctypes.get_errno()
    if got >= 0 or code not in refused:
        reached.append((name, got if got >= 0 else errno.errorcode.get(code)))
print('BREACH reached' if reached else 'all refused', reached)
