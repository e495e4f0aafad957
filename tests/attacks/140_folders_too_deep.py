# must: what is left in a scratch folder is gone, though it lies too deep, is closed or has odd names
# control: pool: the next call of a naive worker finds it
import os
deep, home = 0, os.getcwd() if os.access('.', os.R_OK) else '/'
try:
    os.mkdir('closed')
    for k in range(20):
        open('closed/%d' % k, 'w').close()
    os.mkdir('closed/empty', 0)
    open(b'odd\xff\n name', 'w').close()
    os.chmod('closed', 0)
except OSError as error:
    print(type(error).__name__)
try:
    for deep in range(1500):
        os.mkdir('d' * 200)
        os.chdir('d' * 200)
except OSError as error:
    print(type(error).__name__)
os.chdir(home)
print('left', deep)
