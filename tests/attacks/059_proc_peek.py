# must: /proc shows nothing of other processes, nor of the kernel
# control: breach: plain python reads most of it
import os
for path in ('maps', 'status', 'stat', 'fd', 'fdinfo', 'root', 'cwd', 'exe', 'task', 'mountinfo', 'net/tcp', 'mem', 'auxv', 'syscall', 'stack'):
    for pid in ('@PPID@', str(os.getppid()), 'self'):
        whole = f'/proc/{pid}/{path}'
        try:
            what = os.readlink(whole) if path in ('root', 'cwd', 'exe') and pid != 'self' else os.listdir(whole) if path in ('fd', 'fdinfo', 'task') else path in ('root', 'cwd', 'exe') or len(os.read(os.open(whole, os.O_RDONLY), 64))
            if what is not True:
                print('BREACH', whole, what)
        except (OSError, ValueError) as error:
            print(whole, type(error).__name__)
for path in ('/proc', '/proc/net', '/sys', '/sys/class/net', '/sys/kernel'):
    try:
        print('BREACH list', path, len(os.listdir(path)))
    except OSError as error:
        print(path, type(error).__name__)
for path in ('/proc/cmdline', '/proc/kallsyms', '/proc/mounts', '/proc/version', '/proc/keys', '/proc/net/unix', '/proc/sysvipc/shm', '/proc/modules', '/proc/kcore', '/proc/timer_list'):
    try:
        with open(path, 'rb') as file:
            print('BREACH read', path, len(file.read(64)))
    except OSError as error:
        print(path, type(error).__name__)
