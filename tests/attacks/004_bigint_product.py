# must: one multiplication of huge integers is stopped by the CPU limit
# control: overruns: plain python multiplies on
# expect: timeout
n = (1 << 60_000_000) - 12345
print(n * (n - 2) * (n + 2) % 97)
