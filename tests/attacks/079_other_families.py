# must: no raw or packet socket, and no rare family with its kernel code
# control: breach: plain python opens some, root most
import socket
for name, family, kind, protocol in (
    ('packet', 17, 3, 0x300), ('raw icmp', 2, 3, 1), ('ping', 2, 2, 1), ('raw tcp', 2, 3, 6), ('udplite', 2, 2, 136), ('mptcp', 2, 1, 262), ('sctp', 2, 1, 132),
    ('alg', 38, 5, 0), ('vsock', 40, 1, 0), ('bluetooth', 31, 3, 1), ('can', 29, 3, 1), ('tipc', 30, 5, 0), ('xdp', 44, 3, 0), ('smc', 43, 1, 0), ('kcm', 41, 5, 0), ('x25', 9, 5, 0), ('pppox', 24, 1, 0), ('key', 15, 3, 2),
):
    try:
        socket.socket(family, kind, protocol).close()
        print('BREACH socket', name)
    except OSError as error:
        print(name, type(error).__name__)
