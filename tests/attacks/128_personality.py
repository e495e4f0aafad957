# must: address randomisation can't be switched off, nor the personality changed
# control: breach: plain python changes it
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x0040000, 0x0400000, 0x0000008):
    print('BREACH' if libc.personality(flag) >= 0 else 'refused', hex(flag))
