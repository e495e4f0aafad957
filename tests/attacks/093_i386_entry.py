# must: the 32-bit system call gate (int 0x80) opens no way past the filter
# control: breach: plain python makes a folder through it, where the kernel has it
# needs: x86_64
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
page = libc.mmap(None, 8192, 7, 0x62, -1, 0)      # RWX, private, anonymous, below 4 GB
if page in (None, ctypes.c_void_p(-1).value):
    print('no page', ctypes.get_errno())
else:
    def gate(number, first, second):
        code = b'\x53\xb8' + number.to_bytes(4, 'little') + b'\xbb' + first.to_bytes(4, 'little') + b'\xb9' + second.to_bytes(4, 'little') + b'\xcd\x80\x5b\xc3'
        ctypes.memmove(page, code, len(code))
        return ctypes.CFUNCTYPE(ctypes.c_int)(page)()
    path = b'@CAN@/i386\0'
    ctypes.memmove(page + 4096, path, len(path))
    print('mkdir', gate(39, page + 4096, 0o755), flush=True)
    print('getpid', gate(20, 0, 0))
