# must: no file outside is removed
# control: breach: plain python removes them
import os, shutil
for act in (lambda: os.unlink('@CAN@/secret.txt'), lambda: os.unlink('@CAN@/keep/a.txt'), lambda: os.rmdir('@CAN@/keep'), lambda: shutil.rmtree('@CAN@')):
    try:
        act()
        print('BREACH removed')
    except OSError as error:
        print(type(error).__name__)
