# must: no descriptor of another process is fetched (pidfd_getfd)
# control: breach: plain python takes one of its parent
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for pid in (@PPID@, os.getppid(), 1):
    held = libc.syscall(434, pid, 0)
    print('pidfd_open', held >= 0, errno.errorcode.get(ctypes.get_errno()))
    for fd in range(3):
        got = libc.syscall(438, held, fd, 0) if held >= 0 else -1
        if got >= 0:
            print('BREACH took descriptor', fd, 'of', pid, os.fstat(got))
