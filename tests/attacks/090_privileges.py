# must: no capability is held or gained, no identity changed, no_new_privs set
# control: breach: plain python lacks no_new_privs, root holds all capabilities
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
head, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
if libc.capget(head, data) == 0 and any(data):
    print('BREACH capabilities', [hex(word) for word in data])
full = (ctypes.c_uint32 * 6)(*[0xffffffff] * 6)
print('capset refused' if libc.capset(head, full) else 'BREACH capset')
print('ambient refused' if libc.prctl(47, 2, 21, 0, 0) else 'BREACH ambient')
if libc.prctl(39, 0, 0, 0, 0) == 0:
    print('BREACH new privileges may be gained')
for name, act in (('setuid', lambda: os.setuid(54321)), ('setresgid', lambda: os.setresgid(54321, 54321, 54321)), ('setgroups', lambda: os.setgroups([4, 6, 27])), ('seteuid', lambda: os.seteuid(1))):
    try:
        act()
        print('BREACH', name)
    except OSError as error:
        print(name, type(error).__name__)
