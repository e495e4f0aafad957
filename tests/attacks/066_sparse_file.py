# must: no huge sparse file
# control: breach: plain python makes files of 100 MB
import os
for folder in ('@CAN@', '.', '/tmp', '/var/tmp', '/dev/shm'):
    path = f'{folder}/tir-attack-@PORT@'
    try:
        with open(path, 'wb') as file:
            file.truncate(100 << 20)
        print('BREACH sparse in', folder)
        os.unlink(path)
    except OSError as error:
        print(folder, type(error).__name__)
