# must: values whose text is no text, exits or raises strangely are errors of the program
# control: none: it aims at how a report is cut and encoded, a naive worker does neither
# expect: ok error
import sys
class Odd(str):
    def encode(self, *_):
        raise SystemExit(0)
    def __len__(self):
        return -1
    def __getitem__(self, _):
        raise GeneratorExit
    splitlines = rstrip = removesuffix = encode
class Value:
    def __repr__(self):
        sys.stdout = None
        return Odd('odd')
Value()
