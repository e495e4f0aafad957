# must: a module left in the working or temporary folder is not imported by the next call
# control: pool: the next call of a naive worker imports it
import os
for folder in (os.curdir, '/tmp/tir-attack-@PORT@', '/dev/shm'):
    try:
        with open(folder + '/colorsys.py', 'w') as file:
            file.write('raise ImportError("left by an earlier call")\n')
        print('left in', folder)
    except OSError as error:
        print(type(error).__name__)
