# must: no signal sent through descriptors (F_SETOWN, F_SETSIG) to the parent
# control: breach: the parent of plain python dies of SIGUSR1 from a pipe
import fcntl, os, signal, time
reader, writer = os.pipe()
for pid in (os.getppid(), @PPID@):
    try:
        fcntl.fcntl(reader, fcntl.F_SETOWN, pid)
        fcntl.fcntl(reader, 10, signal.SIGUSR1)      # F_SETSIG
        fcntl.fcntl(reader, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
        os.write(writer, b'x')
        os.read(reader, 1)
        print('armed for', pid)
    except OSError as error:
        print(type(error).__name__)
time.sleep(0.1)
