# must: forking doesn't multiply the memory limit
# control: breach: plain python gets 1.2 GB in four children (of untouched pages: harmless)
import os, time
pids = []
try:
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            block = bytes(300 << 20)
            time.sleep(0.3)
            os._exit(0 if len(block) >> 20 == 300 else 1)
        pids.append(pid)
except OSError as error:
    print(type(error).__name__)
full = sum(os.waitpid(pid, 0)[1] == 0 for pid in pids)
print('BREACH filled %d MB' % (300 * full) if full else 'none')
