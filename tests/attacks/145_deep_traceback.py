# must: an exception nested deeper than the stack is shown, or is an error without its trace
# control: none: plain python shows what it can of it, too
# expect: error killed memory timeout
error = ValueError('first')
for k in range(100_000):
    later = ValueError(k)
    later.__context__, error = error, later
for k in range(2000):
    try:
        error = ExceptionGroup('more', [error])
    except NameError:
        break
raise error
