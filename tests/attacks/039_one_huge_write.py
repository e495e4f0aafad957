# must: a single write of 200 MB is cut to what is kept
# control: floods: plain python writes it all
# bounded: 70000
import os
block = b'z' * (40 << 20)
for _ in range(5):
    os.write(1, block)
