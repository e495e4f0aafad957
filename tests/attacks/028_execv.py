# must: the program can't become another one
# control: breach: plain python becomes echo
import os
for path in ('/bin/echo', '/usr/bin/echo'):
    try:
        os.execv(path, ['echo', 'BREACH exec'])
    except OSError as error:
        print(type(error).__name__)
