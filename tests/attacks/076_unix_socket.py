# must: no unix socket of another process is reached, by path or abstract name
# control: breach: plain python reaches both listeners
import socket
for address in ('@CAN@/door', '\0tir-attack-@PORT@', '/run/systemd/private', '/var/run/docker.sock', '/run/dbus/system_bus_socket'):
    try:
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(address)
            s.sendall(b'stolen')
            print('BREACH connected', repr(address))
    except OSError as error:
        print(repr(address), type(error).__name__)
