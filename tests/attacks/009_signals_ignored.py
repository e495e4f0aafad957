# must: a program that ignores every signal it may is stopped all the same
# control: overruns: plain python ignores SIGTERM and SIGXCPU
# expect: timeout
import signal
for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while True:
    pass
