# must: no POSIX shared memory, named semaphore or message queue
# control: breach: plain python makes each (and removes it)
import ctypes, os
from multiprocessing import shared_memory
librt = ctypes.CDLL(None, use_errno=True)
try:
    block = shared_memory.SharedMemory(create=True, size=4096)
    print('BREACH shared memory', block.name)
    block.unlink()
except OSError as error:
    print(type(error).__name__)
for name, function in (('sem', 'sem_open'), ('mq', 'mq_open')):
    call = getattr(librt, function)
    call.restype = ctypes.c_void_p
    got = call(b'/tir-attack-@PORT@', os.O_CREAT | os.O_RDWR, 0o600, None if name == 'mq' else 1)
    if got not in (None, ctypes.c_void_p(-1).value, 0xffffffff):
        print('BREACH', name, got)
        getattr(librt, name + '_unlink')(b'/tir-attack-@PORT@')
print('done')
