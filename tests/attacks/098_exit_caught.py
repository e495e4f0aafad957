# must: sys.exit caught by the program is no end; the second one is, with its code kept
# control: pool: a naive worker ends with it
# expect: error
# keeps: caught 3
import sys
try:
    sys.exit(3)
except SystemExit as stop:
    print('caught', stop.code)
try:
    raise SystemExit(4)
finally:
    print('finally')
