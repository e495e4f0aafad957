# must: vfork below libc makes no process, nor does clone with CLONE_VM | CLONE_VFORK
# control: breach: the child of plain python speaks (and ruins its parent's stack)
# needs: x86_64
import ctypes, os
libc = ctypes.CDLL(None)
libc.syscall.restype = ctypes.c_long
for number, args in ((56, (0x4111, 0, 0, 0, 0)), (58, ())):
    if libc.syscall(number, *args) == 0:
        os.write(1, b'BREACH child\n')
        os._exit(0)
print('refused')
