# must: no secret of the harness in the memory that the program inherits
# control: breach: plain python finds its environment near its heap
# The kernel is asked to write(2) each page to a pipe: an unmapped one is an error, not a crash.
import os
mark = b'can' + b'ary-'
here = id(object()) & ~0xfff
reader, writer = os.pipe()
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.write.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
found = []
for where in range(here - (24 << 20), here + (24 << 20), 4096):
    if libc.write(writer, where, 4096) == 4096:
        page = os.read(reader, 4096)
        at = page.find(mark)
        if at >= 0 and page[at + 7:at + 8].isalnum():
            found.append(page[at:at + 60])
print('BREACH' if found else 'nothing', found[:3])
