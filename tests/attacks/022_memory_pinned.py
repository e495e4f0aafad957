# must: no more than a few MB pinned in memory
# control: root breach: plain python of root pins 64 MB
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
block = mmap.mmap(-1, 64 << 20)
where = ctypes.addressof(ctypes.c_char.from_buffer(block))
print('refused' if libc.mlock(ctypes.c_void_p(where), ctypes.c_size_t(64 << 20)) else 'BREACH pinned 64 MB')
