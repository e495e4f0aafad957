# must: builtins and modules that the harness uses, replaced: harm ends with the call
# control: pool: the next call of a naive worker is broken
import ast, builtins, io, json, linecache, os, random, signal, struct, sys, time, traceback, types
forged = lambda *_, **__: '{"status": "ok", "value": "FORGED"}'
for module in (json, struct, traceback, linecache, ast, io, time, random, types, signal):
    for name in list(vars(module)):
        if callable(getattr(module, name)) and not name.startswith('__'):
            setattr(module, name, forged)
os.write = os._exit = os.dup2 = os.close = lambda *_: 0
sys.stdout = sys.stderr = sys.__stdout__ = None
for name in ('print', 'len', 'repr', 'str', 'isinstance', 'BaseException', 'MemoryError', 'compile', 'eval', 'exec', '__import__'):
    setattr(builtins, name, forged)
