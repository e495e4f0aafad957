# must: an array above the limit is a MemoryError
# control: breach: plain python gets 1.2 GB (its ends are touched)
# expect: memory
import numpy as np
a = np.zeros((150, 1024, 1024))
a[0] = a[-1] = 1.0
print('BREACH', a.nbytes >> 20, 'MB')
