# must: stdin is empty for every way of reading; nobody's keyboard or pipe is read
# control: pool: a naive worker loses its own input to it
# expect: ok
# keeps: nothing to read
import os, sys
assert sys.stdin.read() == '' and sys.stdin.buffer.readline() == b''
try:
    input('name? ')
except EOFError:
    print('EOFError')
assert os.read(0, 100) == b''
print(open(0, closefd=False).read() or 'nothing to read')
