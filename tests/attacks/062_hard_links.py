# must: no hard link to a file outside
# control: breach: plain python links and reads
import os
for source, target in (('@CAN@/secret.txt', '@CAN@/keep/b.txt'), ('@CAN@/secret.txt', '/tmp/tir-attack-@PORT@'), ('@CAN@/secret.txt', './b.txt')):
    try:
        os.link(source, target)
        print('linked', open(target).read())
    except OSError as error:
        print(type(error).__name__)
