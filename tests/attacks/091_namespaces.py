# must: no namespace is made or entered, no root or mount changed
# control: breach: plain python makes a user namespace where users may, root all of them
# needs: x86_64
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def said(name, got):
    print('BREACH' if got == 0 else 'refused', name, errno.errorcode.get(ctypes.get_errno()))
for name, flag in (('ns', 0x20000), ('uts', 0x4000000), ('ipc', 0x8000000), ('pid', 0x20000000), ('net', 0x40000000), ('cgroup', 0x2000000), ('time', 0x80), ('user', 0x10000000)):
    said(name, libc.unshare(flag))
said('mount', libc.mount(b'none', b'@CAN@/keep', b'tmpfs', 0, None))
libc.umount2(b'@CAN@/keep', 2)
said('bind', libc.mount(b'/', b'@CAN@/keep', None, 0x1000, None))
libc.umount2(b'@CAN@/keep', 2)
said('chroot', libc.chroot(b'@CAN@/keep'))
for kind in ('net', 'mnt', 'pid', 'user'):
    try:
        said('setns ' + kind, libc.setns(os.open(f'/proc/{os.getppid()}/ns/{kind}', os.O_RDONLY), 0))
    except OSError as error:
        print(kind, type(error).__name__)
