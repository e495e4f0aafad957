# must: no connection by sendto with MSG_FASTOPEN, which never calls connect
# control: breach: plain python reaches the listener
import socket
try:
    with socket.socket() as s:
        s.settimeout(5)
        print('sent', s.sendto(b'stolen', 0x20000000, ('127.0.0.1', @PORT@)))
except OSError as error:
    print(type(error).__name__, error)
