# must: a timer whose handler raises at every moment can't stop the trusted end of the call
# control: pool: a naive worker dies in its own code
import signal
def handler(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.0005)
print('armed', flush=True)
