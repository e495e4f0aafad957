# must: nothing is typed into a terminal of the user (TIOCSTI), no terminal is taken
# control: none: it takes a terminal that allows it, and would type into the developer's own
import fcntl, os, termios
for fd in (0, 1, 2):
    for name, number, word in (('TIOCSTI', termios.TIOCSTI, b'#'), ('TIOCSCTTY', termios.TIOCSCTTY, 0), ('TIOCLINUX', 0x541c, b'\x03'), ('TIOCNOTTY', termios.TIOCNOTTY, 0)):
        try:
            fcntl.ioctl(fd, number, word)
            print('BREACH', name)
        except OSError as error:
            print(name, type(error).__name__)
try:
    os.close(os.open('/dev/tty', os.O_RDWR))
    print('BREACH terminal')
except OSError as error:
    print(type(error).__name__)
