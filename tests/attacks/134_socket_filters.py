# must: no code is handed to the kernel through the options of a socket
# control: breach: plain python attaches a filter to a socket pair
import ctypes, socket, struct
try:
    a, b = socket.socketpair()
except OSError as error:
    raise SystemExit(type(error).__name__)
code = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, 0xffff))
program = struct.pack('HxxxxxxQ', 1, ctypes.addressof(code))
for name, option, value in (('filter', 26, program), ('reuseport filter', 51, program), ('timestamps', 37, struct.pack('i', 0x7fff)), ('mark', 36, struct.pack('i', 1)), ('priority', 12, struct.pack('i', 7)), ('buffer', 32, struct.pack('i', 1 << 30))):
    try:
        a.setsockopt(socket.SOL_SOCKET, option, value)
        print('BREACH set', name) if 'filter' in name else print('set', name)
    except OSError as error:
        print(name, type(error).__name__)
