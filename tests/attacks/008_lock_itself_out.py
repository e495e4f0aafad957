# must: a lock taken twice ends at the wall-clock limit, unflushed output is kept
# control: overruns: plain python hangs
# expect: timeout
# keeps: locked
import sys, threading
sys.stdout.write('locked')
lock = threading.Lock()
lock.acquire()
lock.acquire()
