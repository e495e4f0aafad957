# must: the x32 numbers of system calls open no way past the filter
# control: none: few kernels are built with x32; where it is, the same calls work in plain python
# needs: x86_64
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name, number, args in (('getpid', 39, ()), ('mkdir', 83, (b'@CAN@/x32', 0o755)), ('open', 2, (b'@CAN@/secret.txt', 0, 0)), ('fork', 57, ())):
    got = libc.syscall(0x40000000 | number, *args)
    if got == 0 and name == 'fork':
        os._exit(0)
    print('BREACH' if got >= 0 else 'refused', name, errno.errorcode.get(ctypes.get_errno()))
