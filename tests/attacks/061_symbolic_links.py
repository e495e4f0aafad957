# must: a symbolic link opens no way to files outside
# control: breach: plain python reads and writes through links
import os
for link in ('@CAN@/keep/link', '/tmp/tir-attack-@PORT@', './link', '/dev/shm/tir-attack-@PORT@'):
    try:
        os.symlink('@CAN@/secret.txt', link)
        print('made', link)
        print('read', open(link).read())
    except OSError as error:
        print(type(error).__name__)
    try:
        os.unlink(link)
    except OSError:
        pass
for path in ('/proc/self/cwd/../../../../../../@CAN@/secret.txt', '/dev/fd/../root/@CAN@/secret.txt'):
    try:
        print('read', open(path).read())
    except OSError as error:
        print(type(error).__name__)
