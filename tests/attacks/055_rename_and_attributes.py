# must: no renaming, and no change of mode, owner, times or attributes of files outside
# control: breach: plain python changes each
import os
path = '@CAN@/keep/a.txt'
for act in (
    lambda: os.chmod(path, 0o600),
    lambda: os.utime(path, (1, 1)),
    lambda: os.chown(path, os.getuid(), os.getgid()),
    lambda: os.setxattr(path, 'user.tir', b'1'),
    lambda: os.rename('@CAN@/secret.txt', '@CAN@/keep/b.txt'),
    lambda: os.replace(path, '@CAN@/secret.txt'),
    lambda: os.chmod('@CAN@', 0o777),
):
    try:
        act()
        print('BREACH changed')
    except OSError as error:
        print(type(error).__name__)
