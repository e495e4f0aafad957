# must: the number of threads is bounded
# control: breach: plain python starts 600
import threading
gate, n = threading.Event(), 0
threading.stack_size(32768)
try:
    for _ in range(600):
        threading.Thread(target=gate.wait, args=(5,), daemon=True).start()
        n += 1
except (RuntimeError, MemoryError) as error:
    print(type(error).__name__)
print('BREACH threads' if n >= 600 else 'bounded', n)
gate.set()
