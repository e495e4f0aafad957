# must: the same text in every call: hashes, random numbers, order of sets, addresses unused
# control: differs: two runs of plain python differ
# expect: ok
# same: twice
import random, secrets, sys, uuid
import numpy as np
print(hash('tir'), hash(b'tir'), hash((1, 'a')), list({'un', 'deux', 'trois', 'quatre'}), random.random(), random.getrandbits(64), np.random.rand(2), np.random.randint(10 ** 9), sys.flags.hash_randomization)
