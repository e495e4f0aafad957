# must: files outside can't be watched (inotify, fanotify, dnotify, leases)
# control: breach: plain python watches the canary
import ctypes, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init1(0)
print('BREACH watched' if fd >= 0 and libc.inotify_add_watch(fd, b'@CAN@', 0xfff) >= 0 else 'refused inotify')
fd = libc.fanotify_init(0, 0)
print('BREACH fanotify' if fd >= 0 else 'refused fanotify')
for name, act in (('dnotify', lambda: fcntl.fcntl(os.open('@CAN@', os.O_RDONLY), 1026, 0x1f)), ('lease', lambda: fcntl.fcntl(os.open('@CAN@/keep/a.txt', os.O_RDONLY), 1024, 0)), ('lock', lambda: fcntl.flock(os.open('@CAN@/secret.txt', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))):
    try:
        act()
        print('BREACH', name)
    except OSError as error:
        print(name, type(error).__name__)
