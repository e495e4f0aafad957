# must: no netlink socket: it lists interfaces, sockets and audit data
# control: breach: plain python dumps the interfaces
import socket, struct
for protocol in (0, 4, 9, 15, 16):
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol) as s:
            s.settimeout(0.5)
            s.bind((0, 0))
            s.send(struct.pack('=IHHIIB3x', 20, 18, 0x301, 1, 0, 0))
            print('BREACH netlink', protocol, len(s.recv(65536)))
    except OSError as error:
        print(protocol, type(error).__name__)
