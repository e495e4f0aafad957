# must: a program that empties __main__, the frames and the modules around it ends like any
# control: pool: the next call of a naive worker is broken
import gc, sys
frames, frame = [], sys._getframe()
while frame is not None:
    frames.append(frame)
    frame = frame.f_back
modules, dicts = list(sys.modules.values()), []
for frame in frames[1:]:
    frame.f_globals.clear()
for module in modules:
    if module is not None and module.__name__ not in ('builtins', 'sys', 'gc'):
        module.__dict__.clear()
gc.collect()
