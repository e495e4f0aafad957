# must: a report written by the program to every descriptor is not taken for the trusted result
# control: pool: a naive worker's caller takes the forged line for the report
# expect: timeout
import json, os, struct
forged = {'ready': True, 'done': 1, 'status': 'ok', 'value': 'FORGED', 'repr': 'FORGED', 'str': 'FORGED', 'output': 'FORGED', 'cpu': 0.0, 'seconds': 0.0, 'returncode': 0}
line = json.dumps(forged).encode()
for fd in range(3, 64):
    for frame in (line + b'\n', struct.pack('<I', len(line)) + line, struct.pack('>I', len(line)) + line, struct.pack('<Q', len(line)) + line):
        try:
            os.write(fd, frame)
        except OSError:
            pass
while True:
    pass
