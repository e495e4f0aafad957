# must: writing out a huge integer is refused or bounded work
# control: overruns: plain python converts on
# expect: timeout error
import math
import sys
sys.set_int_max_str_digits(0)
for n in (400_000, 900_000, 2_000_000, 6_000_000):
    text = str(math.prod(range(1, 2000)) ** (n // 1000))
