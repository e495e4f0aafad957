# must: an exit value whose text never comes is stopped like any code
# control: overruns: plain python loops in __str__
# expect: timeout error
class Value:
    def __str__(self):
        while True:
            pass
    __repr__ = __bool__ = __int__ = __index__ = __eq__ = __hash__ = __str__
raise SystemExit(Value())
