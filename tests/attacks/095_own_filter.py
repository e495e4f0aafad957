# must: a seccomp filter of the program that turns its ending into nothing can't hang the harness
# control: overruns: plain python can't end any more
# needs: x86_64
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
rules = [(0x20, 0, 0, 0), (0x15, 4, 0, 60), (0x15, 3, 0, 231), (0x15, 2, 0, 1), (0x15, 1, 0, 62), (0x06, 0, 0, 0x7fff0000), (0x06, 0, 0, 0x00050000)]
code = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *rule) for rule in rules))
class Program(ctypes.Structure):
    _fields_ = [('size', ctypes.c_ushort), ('code', ctypes.c_void_p)]
libc.prctl(38, 1, 0, 0, 0)
libc.prctl(22, 2, ctypes.byref(Program(len(rules), ctypes.addressof(code))), 0, 0)
while True:
    libc.syscall(231, 0)      # exit_group
    libc.syscall(62, 0, 9)    # kill
    if libc.syscall(1, 1, b'x', ctypes.c_size_t(1)) == 1:      # write: there is no filter
        break
