# must: files can't be opened by handle, past every path check
# control: root breach: plain python of root reads the secret by its handle
# needs: x86_64
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
class Handle(ctypes.Structure):
    _fields_ = [('size', ctypes.c_uint), ('kind', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]
handle, mount = Handle(128), ctypes.c_int()
got = libc.syscall(303, -100, b'@CAN@/secret.txt', ctypes.byref(handle), ctypes.byref(mount), 0)
print('name_to_handle_at', got, errno.errorcode.get(ctypes.get_errno()))
for base in ('@CAN@', '/', '.', '/usr'):
    try:
        at = os.open(base, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        at = -100
    fd = libc.syscall(304, at, ctypes.byref(handle), os.O_RDONLY)
    if fd >= 0:
        print('read', os.read(fd, 100))
    print('open_by_handle_at', errno.errorcode.get(ctypes.get_errno()))
