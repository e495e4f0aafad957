# must: objects of the harness found through frames, gc and modules can't be used
# control: breach: plain python finds what its environment holds
import gc, socket, sys
mark = 'can' + 'ary-'
names, frame = [], sys._getframe()
while frame is not None:
    names.append(frame.f_code.co_name)
    for key, value in list(frame.f_globals.items()) + list(frame.f_locals.items()):
        if isinstance(value, str) and mark in value and len(value) > 10:
            print('BREACH in frame', key, value[:200])
    frame = frame.f_back
def bears(value):
    text = mark if isinstance(value, str) else mark.encode()
    return isinstance(value, (str, bytes)) and text in value and 10 < len(value) < 200
for thing in gc.get_objects():
    if isinstance(thing, socket.socket) and thing.fileno() >= 0:
        print('BREACH socket', thing)
    for near in gc.get_referents(thing):
        for value in list(near.values()) if type(near) is dict else [near]:
            if bears(value):
                print('BREACH text', value)
print(names)
