# must: SIGILL, SIGFPE, SIGBUS and a corrupted heap are deaths of the call alone
# control: crash: plain python dies
# expect: killed
import ctypes, os
print('before', flush=True)
heap = ctypes.cast(id([1, 2, 3]), ctypes.POINTER(ctypes.c_size_t))
for word in range(-64, 4096):
    heap[word] = 0x4141414141414141
os.kill(os.getpid(), 4)
