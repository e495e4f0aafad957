# must: what a program parks in kernel pipe buffers stays under 64 MB
# control: root breach: plain python of root parks 160 MB
import fcntl, os
parked, ends = 0, []
try:
    for _ in range(160):
        ends.append(os.pipe())
        size = fcntl.fcntl(ends[-1][1], 1031, 1 << 20)   # F_SETPIPE_SZ
        os.set_blocking(ends[-1][1], False)
        parked += os.write(ends[-1][1], bytes(size))
except OSError as error:
    print(type(error).__name__)
print('BREACH parked' if parked > 64 << 20 else 'parked', parked >> 20, 'MB')
