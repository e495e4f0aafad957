# must: no shared memory, semaphore or queue of System V: they outlive the process
# control: breach: plain python makes each (and removes it)
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
for name, made, remove in (('shm', libc.shmget(0, 4096, 0o1600), lambda n: libc.shmctl(n, 0, None)), ('sem', libc.semget(0, 1, 0o1600), lambda n: libc.semctl(n, 0, 0)), ('msg', libc.msgget(0, 0o1600), lambda n: libc.msgctl(n, 0, None))):
    print('BREACH made' if made >= 0 else 'refused', name)
    if made >= 0:
        remove(made)
