# must: an exception whose text never comes is stopped, or shown without it
# control: overruns: plain python loops in __str__
# expect: timeout error
class Loop(Exception):
    def __str__(self):
        while True:
            pass
    __repr__ = __str__
raise Loop
