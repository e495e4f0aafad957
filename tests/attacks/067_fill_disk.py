# must: a program can't fill a disk by many files below the size limit of each
# control: breach: plain python writes 160 MB
import os, tempfile
written = 0
files = []
try:
    for _ in range(5):
        files.append(tempfile.TemporaryFile(dir=None if not written else tempfile.gettempdir()))
        written += files[-1].write(bytes(32 << 20))
except OSError as error:
    print(type(error).__name__, error)
print('BREACH wrote' if written > 64 << 20 else 'wrote', written >> 20, 'MB')
