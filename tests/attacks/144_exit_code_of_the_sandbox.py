# must: exit codes that the sandbox uses for itself, with a forged report, are an end of the program
# control: none: it aims at what the sandbox reads from an exit code
# expect: ok error memory
import json, os
forged = json.dumps({'status': 'unavailable', 'trace': 'sandbox failed', 'left_out': [-1, 1 << 70], 'value': {'a': []}}).encode()
for fd in range(3, 64):
    try:
        os.write(fd, forged)
    except OSError:
        pass
os._exit(125)
