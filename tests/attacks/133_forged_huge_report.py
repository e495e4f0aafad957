# must: a forged report gives no more text than an honest one may
# control: pool: a naive worker's caller takes all of it
# bounded: 70000
import json, os
whole = json.dumps({'status': 'ok', 'value': 'FORGED' * 500_000, 'trace': 'F' * 1_000_000, 'left_out': [1 << 59, -1], 'output': 'F' * 100_000})
for fd in range(3, 64):
    try:
        os.write(fd, whole.encode() + b'\n')
    except OSError:
        pass
os._exit(0)
