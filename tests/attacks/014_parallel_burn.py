# must: threads that burn CPU outside the interpreter lock count against one CPU limit
# control: overruns: plain python hashes on
# expect: timeout
import hashlib, threading
def burn():
    block = bytes(1 << 20)
    while True:
        hashlib.sha256(block).digest()
for _ in range(4):
    threading.Thread(target=burn, daemon=True).start()
burn()
