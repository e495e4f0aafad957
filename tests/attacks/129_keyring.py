# must: no key is added to, or read from, a keyring of the kernel: it outlives the process
# control: breach: plain python adds one to its own, where the kernel has them
# needs: x86_64
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for ring in (-2, -3, -4):
    key = libc.syscall(248, b'user', b'tir-attack-@PORT@', b'text', ctypes.c_size_t(4), ring)
    print('BREACH key' if key >= 0 else 'refused', errno.errorcode.get(ctypes.get_errno()))
    if key >= 0:
        libc.syscall(250, 21, key, ring)      # invalidate: it doesn't stay
print('BREACH session' if libc.syscall(250, 1, None) >= 0 else 'refused session')
