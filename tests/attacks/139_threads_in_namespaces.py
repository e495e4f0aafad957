# must: the one kind of clone that a thread needs gives no namespace and no traced child besides
# control: none: the new thread would run on the stack of the old one, in plain python too
# needs: x86_64
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, flag in (('net', 0x40000000), ('ipc', 0x08000000), ('uts', 0x04000000), ('user', 0x10000000), ('pid', 0x20000000), ('cgroup', 0x02000000), ('mnt', 0x20000)):
    got = libc.syscall(56, ctypes.c_ulong(0x10000 | flag), 0, 0, 0, 0)     # CLONE_THREAD alone is void
    print('BREACH' if got >= 0 else 'refused', name, errno.errorcode.get(ctypes.get_errno()))
