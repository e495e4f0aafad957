# must: MemoryError at the limit, not a dead machine
# control: breach: plain python gets 1.2 GB (of untouched pages: harmless)
# expect: memory
held = []
for _ in range(75):
    held.append(bytes(16 << 20))
print('BREACH held', sum(map(len, held)) >> 20, 'MB')
