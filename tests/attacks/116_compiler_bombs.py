# must: source that the compiler chokes on is an error, a crash or a time-out of the call alone
# control: none: what the compiler does with each depends on its version
import ast
for source in ('(' * 150 + ')' * 150, '-' * 200_000 + '1', 'x' + '.x' * 100_000, 'f(' * 5000 + ')' * 5000, '[' * 99_999, 'lambda: ' * 20_000 + '1',
               'if 1:\n' + ''.join(' ' * k + 'if 1:\n' for k in range(1, 110)), 'x = 9 ** 9 ** 3', '"\\N{' + 'A' * 100_000 + '}"', '1 + ' * 500_000 + '1', 'a = ' * 100_000 + '1', "f'" + '{' * 500 + '}' * 500 + "'"):
    for act in (compile, lambda *a: ast.literal_eval(a[0])):
        try:
            act(source, 'bomb', 'exec')
        except (SyntaxError, MemoryError, RecursionError, ValueError, OverflowError) as error:
            print(type(error).__name__, flush=True)
