# must: sys.modules, import paths and hooks emptied: harm ends with the call
# control: pool: the next call of a naive worker can't import
import sys, types
class Refuse:
    def find_spec(self, name, path=None, target=None):
        raise ImportError('poisoned')
sys.meta_path[:] = [Refuse()]
sys.path_hooks.clear()
sys.path_importer_cache.clear()
sys.path[:] = []
for name in ('sympy', 'numpy', 'math', 'fractions', 'decimal'):
    sys.modules[name] = types.ModuleType(name)
for name in list(sys.modules):
    if name.startswith(('sympy.', 'numpy.', 'json', 'encodings')):
        del sys.modules[name]
