# must: descriptors parked in a socket are bounded like open ones
# control: breach: plain python parks 2000
import array, os, socket
parked = 0
try:
    a, b = socket.socketpair()
    a.setblocking(False)
    for _ in range(20):
        c, d = socket.socketpair()
        for end in (c, d):
            end.setblocking(False)
        a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [d.fileno()] * 100))])
        parked += 100
        c.close()
        d.close()
except OSError as error:
    print(type(error).__name__, error)
print('BREACH parked' if parked >= 2000 else 'parked', parked)
