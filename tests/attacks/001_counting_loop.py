# must: stopped by the CPU limit, what was printed before is kept
# control: overruns: plain python counts on
# expect: timeout
# keeps: counting
print('counting')
n = 0
while n >= 0:
    n += 1
