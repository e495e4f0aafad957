# must: no file in /dev/shm: it is memory that no process limit counts
# control: breach: plain python writes 32 MB there
import os
done = 0
for k in range(8):
    path = '/dev/shm/tir-attack-@PORT@-%d' % k
    try:
        with open(path, 'wb') as file:
            done += file.write(bytes(4 << 20))
        os.remove(path)
    except OSError as error:
        print(type(error).__name__)
if done:
    print('BREACH wrote', done)
