# must: output is bounded in memory and in the record, the program is stopped
# control: floods: plain python writes without end
# bounded: 70000
import sys
while True:
    sys.stdout.write('spam and eggs ' * 500)
