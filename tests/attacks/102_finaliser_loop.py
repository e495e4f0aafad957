# must: __del__ and gc callbacks that loop can't hang the end
# control: overruns: plain python loops in them
# expect: ok timeout
# keeps: main ends
import gc
class Stay:
    def __del__(self):
        while True:
            pass
keep = Stay()
circle = [Stay()]
circle.append(circle)
print('main ends', flush=True)
gc.callbacks.append(lambda phase, info: keep.__del__())
del circle
gc.collect()
