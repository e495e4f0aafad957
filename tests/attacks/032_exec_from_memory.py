# must: no program started from a file that lives in memory alone (execveat)
# control: breach: plain python runs a copy of echo
# needs: x86_64
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
try:
    fd = os.memfd_create('copy')
    with open('/bin/echo', 'rb') as file:
        os.write(fd, file.read())
except OSError as error:
    print(type(error).__name__)
    fd = 1
argv = (ctypes.c_char_p * 3)(b'echo', b'BREACH execveat', None)
print('refused', libc.syscall(322, fd, b'', argv, None, 0x1000), os.strerror(ctypes.get_errno()))
