# must: the number of descriptors is bounded
# control: breach: plain python opens 800
import os
held = []
try:
    while len(held) < 800:
        held.append(os.dup(1))
except OSError as error:
    print(error.strerror)
print('BREACH descriptors' if len(held) >= 800 else 'bounded', len(held))
