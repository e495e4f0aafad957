# must: clone and clone3 below libc make no process
# control: breach: plain python gets a child from each
# needs: x86_64
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, number, *args):
    pid = libc.syscall(number, *args)
    if pid == 0:
        os._exit(0)
    print('BREACH' if pid > 0 else 'refused', name, errno.errorcode.get(ctypes.get_errno()))
attempt('clone', 56, ctypes.c_ulong(17), 0, 0, 0, 0)
record = (ctypes.c_uint64 * 8)()
record[4] = 17      # exit_signal = SIGCHLD
attempt('clone3', 435, record, ctypes.c_size_t(64))
attempt('fork', 57)
