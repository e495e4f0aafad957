# must: a Landlock ruleset of the program that allows everything loosens nothing
# control: breach: plain python reads the secret under it
import ctypes, errno, os, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
for _ in range(3):
    ruleset = libc.syscall(444, struct.pack('Q', 0x1fff), ctypes.c_size_t(8), 0)
    try:
        rule = struct.pack('<Qi', 0x1fff, os.open('/', os.O_PATH))
        print('rule', libc.syscall(445, ruleset, 1, rule, 0), 'restrict', libc.syscall(446, ruleset, 0), errno.errorcode.get(ctypes.get_errno()))
        print('read', open('@CAN@/secret.txt').read())
    except OSError as error:
        print(type(error).__name__)
