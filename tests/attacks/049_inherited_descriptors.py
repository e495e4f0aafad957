# must: nothing open but the standard streams and one channel for the report
# control: breach: plain python inherits what its parent left open
import os, stat
found = []
for fd in range(4, 4096):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    found.append(fd)
    for act in (lambda: print(os.pread(fd, 200, 0)), lambda: os.pwrite(fd, b'scribble', 0), lambda: os.write(fd, b'scribble')):
        try:
            act()
        except OSError:
            pass
print('BREACH open' if found else 'nothing open', found)
