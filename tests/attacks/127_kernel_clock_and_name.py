# must: the clock, the host name and the kernel's log are out of reach
# control: root breach: plain python of root may set them (they are set to what they are)
import ctypes, errno, os, time
libc = ctypes.CDLL(None, use_errno=True)
name = os.uname().nodename.encode()
log = ctypes.create_string_buffer(4096)
for what, got in (('sethostname', libc.sethostname(name, len(name))), ('klogctl', libc.klogctl(3, log, 4096))):
    print('BREACH' if got >= 0 else 'refused', what, errno.errorcode.get(ctypes.get_errno()))
try:
    time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    print('BREACH clock')
except OSError as error:
    print(type(error).__name__)
