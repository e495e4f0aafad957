# must: no datagram leaves
# control: breach: plain python reaches the listener
import socket
for act in (lambda s: s.sendto(b'stolen', ('127.0.0.1', @PORT@)), lambda s: (s.connect(('127.0.0.1', @PORT@)), s.send(b'stolen'))):
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            act(s)
            print('sent')
    except OSError as error:
        print(type(error).__name__, error)
