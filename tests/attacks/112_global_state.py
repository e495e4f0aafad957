# must: state of the interpreter and of the process that was changed ends with the call
# control: pool: the next call of a naive worker sees it
import decimal, gc, locale, os, random, signal, sys, threading, warnings
import numpy
os.environ.update(PYTHONPATH='/poison', LD_PRELOAD='/poison.so', TIR='1')
os.environ.pop('PATH', None)
os.umask(0o777)
decimal.getcontext().prec = 2
random.seed(1)
numpy.random.seed(1)
numpy.seterr(all='raise')
gc.disable()
sys.setrecursionlimit(120)
sys.setswitchinterval(1000)
sys.set_int_max_str_digits(640)
sys.dont_write_bytecode = not sys.dont_write_bytecode
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGALRM, signal.SIGXCPU})
warnings.simplefilter('error')
threading.setprofile(lambda *_: None)
