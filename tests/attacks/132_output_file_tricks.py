# must: seeking, cutting, growing, sealing, locking or mapping the output does no harm to who reads it
# control: none: the output of the control is a pipe, which takes none of this
# bounded: 70000
import fcntl, mmap, os, stat
print('before', flush=True)
for fd in (1, 2, 3):
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            continue      # a device or a terminal is left alone
    except OSError:
        continue
    for act in (
        lambda: os.lseek(fd, 1 << 40, os.SEEK_SET), lambda: os.ftruncate(fd, 1 << 40), lambda: os.ftruncate(fd, 60 << 20), lambda: os.posix_fallocate(fd, 0, 1 << 30),
        lambda: os.lseek(fd, 0, os.SEEK_SET), lambda: os.pwrite(fd, b'BREACH', 1 << 30), lambda: fcntl.flock(fd, fcntl.LOCK_EX), lambda: fcntl.lockf(fd, fcntl.LOCK_EX),
        lambda: mmap.mmap(fd, 4096).write(b'mapped'), lambda: os.fchmod(fd, 0), lambda: os.fchown(fd, 0, 0), lambda: os.sendfile(fd, fd, 0, 1 << 20), lambda: fcntl.fcntl(fd, 1033, 15),
    ):
        try:
            act()
        except (OSError, ValueError) as error:
            print(fd, type(error).__name__)
