# must: exceptions outside Exception, and a broken excepthook, are errors of the program alone
# control: pool: a naive worker that catches Exception dies
# expect: error
import sys
sys.excepthook = lambda *_: exec('while True: pass')
class Above(BaseException):
    pass
raise Above('the worker, too')
