# must: a process pool is an error, not a hang
# control: breach: plain python computes in two workers
# expect: ok error
import multiprocessing as mp
try:
    with mp.get_context('fork').Pool(2) as pool:
        print('BREACH', pool.map(abs, [-1, -2]))
except (OSError, ImportError) as error:
    print(type(error).__name__)
