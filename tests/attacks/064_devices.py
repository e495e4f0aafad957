# must: no device but the harmless ones
# control: breach: plain python opens a pseudo terminal, root more (they are only opened)
import glob, os
names = ['/dev/mem', '/dev/kmem', '/dev/port', '/dev/kmsg', '/dev/tty', '/dev/tty0', '/dev/console', '/dev/ptmx', '/dev/fuse', '/dev/kvm', '/dev/net/tun', '/dev/loop-control', '/dev/loop0', '/dev/vda', '/dev/sda', '/dev/nvme0n1', '/dev/uinput', '/dev/input/event0', '/dev/nvidiactl', '/dev/dri/card0', '/dev/vhost-net', '/dev/hpet', '/dev/autofs', '/dev/userfaultfd']
for path in names + glob.glob('/dev/disk/*/*')[:3]:
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY))
        print('BREACH opened', path)
    except OSError as error:
        print(path, type(error).__name__)
