# must: a wait that uses no CPU ends at the wall-clock limit, what was printed before is kept
# control: overruns: plain python waits on
# expect: timeout
# keeps: waiting
import threading
print('waiting')
threading.Event().wait(60)
