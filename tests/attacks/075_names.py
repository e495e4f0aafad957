# must: a name is not looked up over the network; refused at once
# control: breach: plain python may open the socket that asks
# expect: ok error killed
import socket
try:
    print(socket.getaddrinfo('tir-attack.invalid', 80))
except OSError as error:
    print(type(error).__name__)
try:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 53))
    print('BREACH route to a name server')
except OSError as error:
    print(type(error).__name__)
