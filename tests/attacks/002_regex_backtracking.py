# must: a match that backtracks for ever is stopped by the CPU limit
# control: overruns: plain python matches on
# expect: timeout
import re
print(re.fullmatch(r'(?:a|aa|aaa)+b', 'a' * 90))
