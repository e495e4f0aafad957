# must: no device node, pipe or socket file made anywhere
# control: breach: plain python makes a fifo, root a device
import os, stat
for kind, name in ((stat.S_IFCHR, 'null'), (stat.S_IFBLK, 'disk'), (stat.S_IFIFO, 'fifo'), (stat.S_IFSOCK, 'sock')):
    for folder in ('@CAN@', '.', '/tmp', '/dev/shm'):
        path = f'{folder}/tir-attack-{name}-@PORT@'
        try:
            os.mknod(path, kind | 0o666, os.makedev(1, 3))
            print('BREACH made', name, 'in', folder)
            os.unlink(path)
        except OSError as error:
            print(type(error).__name__)
