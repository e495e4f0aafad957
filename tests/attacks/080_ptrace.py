# must: neither the harness nor the process that forked this one can be traced
# control: breach: plain python seizes its parent
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
for name, pid in (('harness', @PPID@), ('parent', os.getppid()), ('one', 1)):
    for request, word in ((0x4206, 'seize'), (16, 'attach')):
        got = libc.ptrace(request, pid, None, None)
        print('BREACH' if got == 0 else 'refused', word, name, errno.errorcode.get(ctypes.get_errno()))
        libc.ptrace(17, pid, None, None)
