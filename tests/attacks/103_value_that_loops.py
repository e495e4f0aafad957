# must: a value whose text never comes is stopped like any code
# control: pool: a naive worker never answers
# expect: timeout
# keeps: before
print('before')
class Value:
    def __repr__(self):
        while True:
            pass
    __str__ = __repr__
Value()
