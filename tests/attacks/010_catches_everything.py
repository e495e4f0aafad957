# must: a loop that swallows every exception is stopped
# control: overruns: plain python swallows on
# expect: timeout
import signal
signal.signal(signal.SIGXCPU, lambda *_: None)
while True:
    try:
        while True:
            raise KeyboardInterrupt
    except BaseException:
        continue
