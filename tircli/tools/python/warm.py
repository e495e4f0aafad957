"""What a template does once, so that no call has to: imports, first uses, and settling memory."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import BuiltinImporter, FrozenImporter, ModuleSpec
from types import ModuleType
from typing import Any

from tircli.tools.python import layers

STANDARD = (
    *("ast", "bisect", "calendar", "cmath", "collections", "copy", "dataclasses", "datetime"),
    *("decimal", "enum", "fractions", "functools", "heapq", "inspect", "io", "itertools", "json"),
    *("math", "operator", "pprint", "random", "re", "statistics", "string", "textwrap", "time"),
    *("traceback", "typing", "contextlib", "linecache", "string", "types"),
)
DEFAULT = ("numpy", "sympy")
"""Imported where installed."""

SYMPY = """
from sympy import *
x, y, z = symbols('x y z'); n, k = symbols('n k', integer=True); a = symbols('a', positive=True)
solve(x**2 - 5*x + 6, x); solve([x + y - 3, x - y - 1], [x, y]); solve(sqrt(x + 1) - 2, x)
solve(x**3 - 2*x + 1, x); solve(Eq(2**x, 8), x); solveset(sin(x), x, Interval(0, 2*pi))
integrate(x**2*exp(x), x); integrate(sin(x)**2, (x, 0, pi)); integrate(1/(1 + x**2), (x, 0, oo))
diff(sin(x)*exp(x), x, 2); limit(sin(x)/x, x, 0); limit((1 + 1/x)**x, x, oo)
series(cos(x), x, 0, 4); simplify(sin(x)**2 + cos(x)**2); simplify((x**2 - 1)/(x - 1))
factor(x**3 - 1); expand((x + y)**3); apart(1/(x*(x + 1))); together(1/x + 1/y); cancel(x/x**2)
trigsimp(2*sin(x)*cos(x)); nsimplify(0.5); N(pi, 20); sqrt(8); Rational(1, 3) + Rational(1, 6)
summation(1/k**2, (k, 1, oo)); summation(k, (k, 1, n)); product(k, (k, 1, 5)); binomial(10, 3)
factorint(360); isprime(97); primerange(1, 20); divisors(28); gcd(12, 18); lcm(4, 6); totient(9)
Matrix([[1, 2], [3, 4]]).inv(); Matrix([[2, 1], [1, 2]]).eigenvals(); Matrix([[1, 2], [3, 4]]).det()
Poly(x**2 - 1, x).all_roots(); latex(x**2/y); str(sqrt(2)/2); pretty(x**2); sympify('x**2 + 1')
lambdify(x, x**2)(2); Piecewise((x, x > 0), (0, True)).subs(x, 1); reduce_inequalities(x**2 < 4, x)
diophantine(2*x + 3*y - 5); Sum(k, (k, 1, 3)).doit(); (x**2).subs(x, 3); floor(a); Abs(-x)
"""
NUMPY = """
import numpy as np
a = np.arange(6.0).reshape(2, 3)
a @ a.T; np.linalg.solve(np.eye(2), np.ones(2)); np.linalg.inv(np.eye(3)); np.linalg.eig(np.eye(2))
np.linalg.det(np.eye(2)); np.sort(a); a.sum(); a.mean(); str(a); repr(a); np.roots([1, -3, 2])
np.random.rand(); np.linspace(0, 1, 5); np.unique(a); np.array([1, 2]).tolist(); np.prod([1, 2])
"""


def places(names: Sequence[str]) -> list[str]:
    """Where the named packages lie; [] for what isn't installed."""
    found: list[str] = []
    for name in names:
        spec = importlib.util.find_spec(name.partition(".")[0])
        if spec is None:
            continue
        if spec.submodule_search_locations:
            found += [str(place) for place in spec.submodule_search_locations]
        elif spec.origin and os.path.isabs(spec.origin):
            found.append(spec.origin)
    return found


def load(optional: Iterable[str], names: Iterable[str]) -> None:
    """Import the standard modules, what is there of `optional`, and `names`; use the large ones.

    Raises ImportError for one of `names` that is not there.
    """
    for name in STANDARD:
        importlib.import_module(name)
    for name in optional:
        if importlib.util.find_spec(name):
            importlib.import_module(name)
    for name in names:
        importlib.import_module(name)
    if "numpy" in sys.modules:
        exec(NUMPY, {})
        sys.modules["numpy"].random.seed(0)
    if "sympy" in sys.modules:
        exec(SYMPY, {})


class Gate:
    """Finds what stands in the list, as the finders that were there; all else isn't installed."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names) | sys.stdlib_module_names
        self.finders = [f for f in sys.meta_path if f not in (BuiltinImporter, FrozenImporter)]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of `name`, or None."""
        if name.partition(".")[0] not in self.names:
            return None
        for finder in self.finders:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def find_distributions(self, *context: Any) -> Iterator[Any]:
        """The packages that are installed, for importlib.metadata."""
        for finder in self.finders:
            if hasattr(finder, "find_distributions"):
                yield from finder.find_distributions(*context)


def gate(names: Sequence[str]) -> None:
    """From here on only the standard library, what is loaded and `names` can be imported."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "tircli"]:
        del sys.modules[name]
    if "*" not in names:
        loaded = {name.partition(".")[0] for name in sys.modules}
        finder: Any = Gate(loaded | {name.partition(".")[0] for name in names})
        sys.meta_path[:] = [BuiltinImporter, FrozenImporter, finder]
    importlib.invalidate_caches()


def settle(proc: int | None) -> int:
    """Make forking cheap: nothing for the garbage collector, huge pages below; bytes that got them.

    `proc` is an open /proc.
    """
    gc.collect()
    gc.freeze()
    if proc is None:
        return 0
    with open(os.open("self/maps", os.O_RDONLY, dir_fd=proc), encoding="utf-8") as file:
        lines = file.read().splitlines()
    huge = 2 << 20
    total = 0
    for line in lines:
        span, mode, _, _, inode, *name = line.split(maxsplit=5)
        if mode != "rw-p" or inode != "0" or (name and name[0] != "[heap]"):
            continue
        low, high = (int(end, 16) for end in span.split("-"))
        low, high = -(-low // huge) * huge, high // huge * huge
        if high > low and layers.collapse(low, high):
            total += high - low
    return total
