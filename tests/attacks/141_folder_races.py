# must: a thread that makes and renames files until the end leaves none of them
# control: pool: the next call of a naive worker finds them
import os, threading, time
def churn(k):
    for n in range(100_000):
        try:
            open(f'{k}-{n % 7}', 'w').close()
            os.rename(f'{k}-{n % 7}', f'{k}-{n % 5}-moved')
            os.mkdir(f'{k}-{n % 3}-folder')
        except OSError:
            time.sleep(0.0001)
for k in range(3):
    threading.Thread(target=churn, args=(k,), daemon=True).start()
time.sleep(0.05)
