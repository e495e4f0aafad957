# must: no file outside is written, appended to, cut or made
# control: breach: plain python does all of it
import mmap, os, pathlib
def change_by_map():
    with open('@CAN@/secret.txt', 'r+b') as file, mmap.mmap(file.fileno(), 0) as view:
        view[:1] = b'X'
for act in (
    lambda: open('@CAN@/secret.txt', 'a').write('more'),
    lambda: os.truncate('@CAN@/keep/a.txt', 1),
    change_by_map,
    lambda: open('@CAN@/keep/new.txt', 'x').close(),
    lambda: os.mkdir('@CAN@/folder'),
    lambda: os.mkfifo('@CAN@/pipe'),
    lambda: os.open('@CAN@', os.O_TMPFILE | os.O_RDWR),
    lambda: pathlib.Path('/tmp/tir-attack-@PORT@').write_text('BREACH'),
    lambda: pathlib.Path('/var/tmp/tir-attack-@PORT@').write_text('BREACH'),
):
    try:
        act()
        print('written')
    except OSError as error:
        print(type(error).__name__)
