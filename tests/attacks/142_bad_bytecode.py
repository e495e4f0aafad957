# must: invented bytecode, which the interpreter does not check, is a crash of the call alone
# control: none: what invented bytecode does depends on the version of the interpreter
# expect: killed error memory timeout
def f():
    return 1
f.__code__ = f.__code__.replace(co_code=bytes([100, 250]) * 8 + bytes([83, 0]), co_consts=(), co_stacksize=1)
print('before', flush=True)
print(f())
