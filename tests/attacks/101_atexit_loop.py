# must: exit hooks can't hang the end
# control: overruns: the hooks of plain python loop
# expect: ok timeout
# keeps: main ends
import atexit, sys, threading, weakref
def loop(*_):
    while True:
        pass
class Thing:
    pass
thing = Thing()
weakref.finalize(thing, loop)
atexit.register(loop)
getattr(threading, '_register_atexit', atexit.register)(loop)
sys.exitfunc = loop
print('main ends')
