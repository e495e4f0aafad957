# must: the same for stderr
# control: floods: plain python writes without end
# bounded: 70000
import os
while True:
    os.write(2, b'warning: ' * 2000)
