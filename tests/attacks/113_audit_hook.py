# must: an audit hook, which can't be removed, that refuses everything ends with the call
# control: pool: a naive worker can do nothing any more
import sys
def hook(event, _):
    if event.split('.')[0] in ('open', 'os', 'compile', 'exec', 'import', 'socket', 'marshal', 'object', 'code'):
        raise RuntimeError('hooked')
sys.addaudithook(hook)
