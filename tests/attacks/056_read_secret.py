# must: no file outside is read, by whatever path
# control: breach: plain python reads it each way
import linecache, mmap, os, pathlib, runpy, shutil
path = '@CAN@/secret.txt'
up = os.path.relpath(path, os.getcwd()) if os.access('.', 0) else '../' * 12 + path
def by_map():
    fd = os.open(path, os.O_RDONLY)
    return mmap.mmap(fd, 0, prot=mmap.PROT_READ)[:]
for act in (
    lambda: open(path).read(),
    lambda: pathlib.Path('/proc/self/root' + path).read_text(),
    lambda: open(up).read(),
    lambda: open(os.open('/', os.O_PATH | os.O_DIRECTORY), closefd=True).read(),
    lambda: os.read(os.open(path.lstrip('/'), os.O_RDONLY, dir_fd=os.open('/', os.O_PATH)), 99),
    by_map,
    lambda: ''.join(linecache.getlines(path)),
    lambda: shutil.copy(path, 'copy') and open('copy').read(),
):
    try:
        print('read', act())
    except OSError as error:
        print(type(error).__name__)
