# must: trace and profile functions can't run on, nor change, the frames of the harness
# control: pool: the report of a naive worker is changed by it
import sys
own = sys._getframe().f_code.co_filename
def trace(frame, event, arg):
    if frame.f_code.co_filename != own:
        for name in ('status', 'value', 'report', 'output', 'result', 'error', 'message'):
            if name in frame.f_locals:
                frame.f_locals[name] = 'FORGED'
        if event == 'return':
            raise KeyboardInterrupt
    return trace
frame = sys._getframe()
while frame is not None:
    frame.f_trace = trace
    frame = frame.f_back
sys.settrace(trace)
sys.setprofile(trace)
