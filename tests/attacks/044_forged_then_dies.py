# must: a forged "ok" followed by a death by signal is reported as the death
# control: pool: a naive worker reports ok
# expect: killed
import json, os, signal
for fd in range(3, 64):
    try:
        os.write(fd, json.dumps({'ready': True, 'done': 1, 'status': 'ok', 'value': 'FORGED', 'output': 'FORGED', 'repr': 'FORGED'}).encode() + b'\n')
    except OSError:
        pass
os.kill(os.getpid(), signal.SIGKILL)
