# must: no file of the interpreter or of its packages can be opened for writing or added
# control: breach: plain python may write where its owner may (nothing is written)
import os, sys
import numpy, sympy
for module in (os, numpy, sympy):
    for path in (module.__file__, os.path.dirname(module.__file__)):
        try:
            flags = os.O_WRONLY | (os.O_TMPFILE if os.path.isdir(path) else 0)
            os.close(os.open(path, flags))
            print('BREACH writable', path)
        except OSError as error:
            print(type(error).__name__)
