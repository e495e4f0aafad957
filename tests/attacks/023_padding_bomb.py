# must: a format width of more than a gigabyte is stopped
# control: breach: plain python pads on
# expect: memory timeout
print('padding', flush=True)
print('BREACH padded', len('{:>{width}}'.format(1, width=1_150_000_000)) >> 20, 'MB')
