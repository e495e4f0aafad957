# must: not even names, sizes and links of files outside are learned
# control: breach: plain python looks at them
import os
for name, act in (('stat', lambda: os.stat('@CAN@/secret.txt').st_size), ('lstat', lambda: os.lstat('@CAN@/keep/a.txt').st_mtime), ('access', lambda: os.access('@CAN@/secret.txt', os.F_OK) or os.stat('/nonexistent')), ('statvfs', lambda: os.statvfs('@CAN@').f_bfree), ('chdir', lambda: os.chdir('@CAN@')), ('path', lambda: os.open('@CAN@/secret.txt', os.O_PATH)), ('link of harness', lambda: os.readlink('/proc/@PPID@/cwd')), ('home', lambda: os.stat(os.path.expanduser('~root')).st_mtime if os.path.exists('/root') else os.stat('/nonexistent'))):
    try:
        print('BREACH', name, act())
    except OSError as error:
        print(name, type(error).__name__)
