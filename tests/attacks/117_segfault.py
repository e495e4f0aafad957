# must: a crash of the interpreter is reported as a crash, output before it is kept
# control: crash: plain python dies of SIGSEGV
# expect: killed
# keeps: before the crash
import ctypes
print('before the crash', flush=True)
ctypes.memset(16, 0, 64)
