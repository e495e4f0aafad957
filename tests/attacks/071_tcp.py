# must: no TCP connection, not even to this machine; refused at once
# control: breach: plain python reaches the listener
# expect: ok error killed
import socket
for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::ffff:127.0.0.1')):
    try:
        with socket.socket(family, socket.SOCK_STREAM) as s:
            s.settimeout(5)
            s.connect((host, @PORT@))
            s.sendall(b'stolen')
            print('connected')
    except OSError as error:
        print(type(error).__name__, error)
