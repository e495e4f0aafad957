# must: anonymous maps count against the limit, shared ones too
# control: breach: plain python maps 1.25 GB (of untouched pages: harmless)
import mmap
maps = []
try:
    for k in range(10):
        kind = mmap.MAP_SHARED if k % 2 else mmap.MAP_PRIVATE
        maps.append(mmap.mmap(-1, 128 << 20, flags=kind | mmap.MAP_ANONYMOUS))
    print('BREACH mapped', len(maps) * 128, 'MB')
except (OSError, MemoryError, ValueError) as error:
    print(type(error).__name__, len(maps))
