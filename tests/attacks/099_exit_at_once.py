# must: os._exit with a code is an error, text written before is kept
# control: pool: a naive worker ends with it
# expect: error
# keeps: written
import os
os.write(1, b'written')
os._exit(7)
