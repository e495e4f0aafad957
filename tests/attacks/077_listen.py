# must: no socket that listens, on any family
# control: breach: plain python listens
import os, socket
for family, address in ((socket.AF_INET, ('127.0.0.1', 0)), (socket.AF_INET6, ('::1', 0)), (socket.AF_UNIX, '\0tir-listen-@PORT@'), (socket.AF_UNIX, './tir-listen')):
    try:
        with socket.socket(family) as s:
            s.bind(address)
            s.listen()
            print('BREACH listening', s.getsockname())
    except OSError as error:
        print(type(error).__name__)
