# must: a thread that would run for half a minute ends with the call
# control: overruns: plain python waits for it
# expect: ok timeout
# keeps: main ends
import threading, time
def stay():
    for _ in range(300):
        time.sleep(0.1)
threading.Thread(target=stay, daemon=False).start()
print('main ends')
