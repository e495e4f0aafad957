# must: recursion through C to the end of the stack is a crash or an error of the call alone
# control: none: how deep an interpreter lets C code go, and so whether it dies, depends on its version
# expect: error killed memory timeout
import sys
sys.setrecursionlimit(10 ** 9)
class Deep:
    def __eq__(self, other):
        return [self] == [other]
print(Deep() == Deep())
