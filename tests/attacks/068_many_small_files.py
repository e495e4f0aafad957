# must: a program can't use up inodes
# control: breach: plain python makes 3000 files and links
import os, shutil, tempfile
made, folder = 0, None
try:
    folder = tempfile.mkdtemp()
    for k in range(3000):
        with open(f'{folder}/{k}', 'x'):
            made += 1
except OSError as error:
    print(type(error).__name__)
print('BREACH files' if made >= 3000 else 'made', made)
if folder:
    shutil.rmtree(folder)
