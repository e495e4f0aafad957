# must: an exception with a huge message, a long chain and a hostile class is a bounded error
# control: floods: plain python prints 6 MB of it
# expect: error memory
# bounded: 70000
class Meta(type):
    def __getattribute__(cls, name):
        if name in ('__name__', '__qualname__', '__module__'):
            raise MemoryError('name')
        return super().__getattribute__(name)
error = ValueError('m' * (3 << 20))
for k in range(400):
    later = KeyError('k' * 1000)
    later.__cause__, error = error, later
class Last(Exception, metaclass=Meta):
    __traceback__ = property(lambda self: 1 / 0)
raise ValueError('w' * (3 << 20)) from error
