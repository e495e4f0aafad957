# must: a small integer overwritten in memory: harm ends with the call
# control: pool: the next call of a naive worker counts wrong or dies
# expect: ok error killed timeout memory
import ctypes
print('before', flush=True)
place = ctypes.cast(id(9), ctypes.POINTER(ctypes.c_uint32))
for word in range(4, 7):
    if place[word] == 9:
        place[word] = 8
