# must: a C loop that runs no bytecode, so that no Python signal handler gets a turn, is stopped
# control: overruns: plain python sums on
# expect: timeout
import itertools
print(sum(itertools.repeat(1)))
