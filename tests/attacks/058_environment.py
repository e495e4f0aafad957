# must: no variable of the caller's environment is seen, in Python, in libc or in /proc
# control: breach: plain python prints the secret in it
import ctypes, os
print(dict(os.environ))
libc = ctypes.CDLL(None)
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, 'environ')
n = 0
while environ and environ[n]:
    print(environ[n])
    n += 1
for pid in ('self', 'thread-self', str(os.getppid()), '@PPID@', '1'):
    for name in ('environ', 'cmdline'):
        try:
            with open(f'/proc/{pid}/{name}', 'rb') as file:
                print(pid, name, file.read())
        except OSError as error:
            print(pid, name, type(error).__name__)
