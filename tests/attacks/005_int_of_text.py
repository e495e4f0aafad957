# must: reading an integer of a million digits is refused or bounded work
# control: overruns: plain python reads on once the digit limit is off
# expect: timeout error
import sys
try:
    int('7' * 10_000)
except ValueError as error:
    print(type(error).__name__)
sys.set_int_max_str_digits(0)
for digits in (2_000_000, 8_000_000, 32_000_000):
    int('7' * digits)
