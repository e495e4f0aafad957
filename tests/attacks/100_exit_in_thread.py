# must: os._exit(0) from a thread while the main thread works ends the call
# control: pool: a naive worker ends with it
# expect: ok error
# keeps: in thread
import os, threading
def end():
    os.write(1, b'in thread\n')
    os._exit(0)
threading.Thread(target=end).start()
while True:
    pass
