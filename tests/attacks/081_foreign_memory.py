# must: no memory of another process is read or written
# control: breach: plain python reads its parent's memory
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
class Range(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(16)
here = Range(ctypes.addressof(buffer), 16)
for pid in (os.getppid(), @PPID@):
    places = [id(None)]
    try:
        with open(f'/proc/{pid}/maps') as maps:
            places.append(int(maps.readline().split('-')[0], 16))
    except OSError as error:
        print('maps', type(error).__name__)
    for place in places:
        there = Range(place, 16)
        for name in ('process_vm_readv', 'process_vm_writev'):
            if name == 'process_vm_writev' and not any(buffer.raw):
                continue      # write back what was read, nothing else
            got = getattr(libc, name)(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
            print('BREACH' if got == 16 else 'refused', name, errno.errorcode.get(ctypes.get_errno()))
    for flags in (os.O_RDONLY, os.O_RDWR):
        try:
            os.close(os.open(f'/proc/{pid}/mem', flags))
            print('BREACH mem', flags)
        except OSError as error:
            print('mem', type(error).__name__)
