"""Values of expressions and their equality: exact where they are rational, else 50 digits.

Expressions with variables are compared at points: equal at every point where both are defined over
the reals (at complex values if they hold i, or are defined nowhere) means equal.
A bare log is natural or of base ten, whichever makes both sides equal: books use both, the
question decides, and both sides are read alike.
Work is bounded: powers and arguments by their magnitude (TooBig), all of it by a deadline.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from tircli.answers.exact import exact
from tircli.answers.expression import Node, TooBig, contains, variables

MAX_MAGNITUDE = 10_000_000
DIGITS = 50
_LOCAL = threading.local()


class Undefined(ValueError):
    """An expression without a value at a point (division by zero, root of a negative)."""


class OutOfTime(Exception):
    """The deadline of a comparison has passed."""


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Within, this thread raises OutOfTime after some seconds of its processor time."""
    _LOCAL.end = time.thread_time() + seconds
    try:
        yield
    finally:
        _LOCAL.end = math.inf


def check_time() -> None:
    """Raise OutOfTime if this thread's deadline has passed."""
    if time.thread_time() > getattr(_LOCAL, "end", math.inf):
        raise OutOfTime("out of time")


class _Values:
    """Numerical values at one point, with the greatest intermediate seen (`scale`)."""

    def __init__(self, mp: Any, point: dict[str, Any], real: bool, base: int) -> None:
        self.mp, self.point, self.real, self.base = mp, point, real, base
        self.scale = mp.zero

    def of(self, node: Node) -> Any:
        """The value. Raises Undefined or TooBig."""
        try:
            value = self._of(node)
        except (ZeroDivisionError, OverflowError):
            raise Undefined("undefined") from None
        if self.mp.isnan(value):
            raise Undefined("undefined")
        return value

    def _of(self, node: Node) -> Any:
        mp, kind = self.mp, node[0]
        if kind == "n":
            return mp.mpf(node[1].numerator) / node[1].denominator
        if kind == "v":
            return self.point[node[1]]
        if kind == "c":
            return {"pi": mp.pi, "e": mp.e, "i": mp.j, "inf": mp.inf}[node[1]] * mp.one
        if kind == "f":
            return self._function(node[1], node[2:])
        values = [self.of(part) for part in node[1:]]
        if kind == "+":
            self.scale = max(self.scale, *(abs(v) for v in values if mp.isfinite(v)), mp.zero)
            return sum(values[1:], values[0])
        if kind == "*":
            total = values[0]
            for value in values[1:]:
                total = total * value
            return total
        if kind == "/":
            return values[0] / values[1]
        return self._power(values[0], values[1], node[2])

    def _power(self, base: Any, power: Any, node: Node) -> Any:
        mp = self.mp
        if not (mp.isfinite(base) and mp.isfinite(power)):
            if base == mp.inf and power not in (0, mp.inf, -mp.inf):
                return mp.inf if mp.re(power) > 0 else mp.zero
            raise Undefined("undefined")
        if base == 0:
            if mp.re(power) <= 0:
                raise Undefined("undefined")
            return mp.zero
        if abs(power) * max(abs(mp.mag(base)), 1) > MAX_MAGNITUDE:
            raise TooBig("too big to compute")
        if self.real and base < 0 and not mp.isint(power):
            written = exact(node)
            if written is None or written.denominator % 2 == 0:
                raise Undefined("a root of a negative number")
            value = (-base) ** power
            return -value if written.numerator % 2 else value
        return base**power

    def _function(self, name: str, parts: tuple[Node, ...]) -> Any:
        mp = self.mp
        values = [self.of(part) for part in parts]
        x = values[0]
        if any(mp.isinf(value) for value in values):
            raise Undefined("undefined")
        if name == "root":
            return self._power(x, 1 / values[1], ("/", ("n", Fraction(1)), parts[1]))
        if name == "abs":
            return abs(x)
        if name in ("floor", "ceil"):
            # A value that is whole but for its last digits is that whole number.
            near = mp.nint(x.real)
            exactly = abs(x - near) < mp.mpf(10) ** (10 - DIGITS) * max(1, abs(x))
            return near if exactly else mp.floor(x) if name == "floor" else mp.ceil(x)
        if name in ("max", "min"):
            return max(values) if name == "max" else min(values)
        if name in ("factorial", "binom", "gcd", "lcm"):
            if max(abs(value) for value in values) > 10**6 or name in ("gcd", "lcm"):
                raise TooBig("too big to compute")
            return mp.factorial(x) if name == "factorial" else mp.binomial(x, values[1])
        if name in ("ln", "log"):
            if x == 0 or (self.real and x < 0):
                raise Undefined("a logarithm of no positive number")
            return mp.log(x) if name == "ln" or self.base == 0 else mp.log(x) / mp.log(self.base)
        if abs(x) > 10**6:
            raise TooBig("too big to compute")
        self.scale = max(self.scale, mp.one)
        if name == "cis":
            return mp.expj(x)
        value = getattr(mp, _MP_NAMES.get(name, name))(x)
        if self.real and isinstance(value, mp.mpc):
            raise Undefined("outside the domain")
        return value


_MP_NAMES = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arccot": "acot"}


def _mp() -> Any:
    """This thread's own mpmath context; a shared one changes its precision under our feet."""
    if not hasattr(_LOCAL, "mp"):
        import mpmath

        _LOCAL.mp = mpmath.MPContext()
        _LOCAL.mp.dps = DIGITS
    return _LOCAL.mp


def _close(a: Any, b: Any, scale: Any, mp: Any, digits: int = 30) -> bool:
    """True if two values agree to `digits` digits, or differ by rounding of the scale only."""
    if mp.isinf(a) or mp.isinf(b):
        return bool(a == b)
    gap = abs(a - b)
    return bool(
        gap <= mp.mpf(10) ** -digits * max(abs(a), abs(b)) or gap <= scale * mp.mpf(10) ** -42
    )


def _points(names: list[str], mp: Any) -> Iterator[dict[str, Any]]:
    """Points to compare at: positive ones, then both signs, then whole numbers."""
    rng = random.Random(" ".join(names))
    for turn in range(24):
        values = [mp.mpf(rng.randrange(10**11, 3 * 10**12)) / 10**12 for _ in names]
        if turn >= 5:
            values = [value * rng.choice((-1, 1)) for value in values]
        yield dict(zip(names, values, strict=True))
    for _ in range(8):
        yield {name: mp.mpf(rng.randrange(1, 12)) for name in names}


def _pairs(a: Node, b: Node, base: int) -> Iterator[tuple[Any, Any, Any]]:
    """The values of both at the points where both are defined, and their scale."""
    mp = _mp()
    names = sorted(variables(a) | variables(b))
    imaginary = contains(a, ("c", "i")) or contains(b, ("c", "i")) or _has_cis(a, b)
    for real in (False,) if imaginary else (True, False):
        found = 0
        for point in _points(names, mp) if names else [{}]:
            check_time()
            one, other = (_Values(mp, point, real, base) for _ in range(2))
            try:
                values = one.of(a), other.of(b)
            except Undefined:
                continue
            found += 1
            yield (*values, max(one.scale, other.scale))
            if found == 10:
                return
        if found >= 3 or (found and not names):
            return


def _has_cis(a: Node, b: Node) -> bool:
    return contains(a, ("f", "cis")) or contains(b, ("f", "cis"))


def _bases(a: Node, b: Node) -> tuple[int, ...]:
    """The bases to read a bare log in; 0 is natural."""
    return (0, 10) if contains(a, ("f", "log")) or contains(b, ("f", "log")) else (0,)


def same(a: Node, b: Node) -> bool:
    """True if two expressions are equal. Raises TooBig or OutOfTime."""
    if a == b:
        return _defined(a)
    if not (variables(a) or variables(b)):
        x, y = exact(a), exact(b)
        if x is not None and y is not None:
            return x == y
    return any(_same(a, b, base) for base in _bases(a, b))


def _same(a: Node, b: Node, base: int) -> bool:
    found = 0
    for x, y, scale in _pairs(a, b, base):
        if not _close(x, y, scale, _mp()):
            return False
        found += 1
    return found > 0


def _defined(node: Node) -> bool:
    """True unless the expression has no value anywhere (1/0)."""
    return exact(node) is not None or any(True for _ in _pairs(node, node, 0))


def ratio(a: Node, b: Node) -> int:
    """The sign of the constant a / b; 0 if a / b is no constant other than zero."""
    for base in _bases(a, b):
        first = None
        count = 0
        for x, y, scale in _pairs(a, b, base):
            mp = _mp()
            if mp.isinf(x) or mp.isinf(y):
                continue
            zero = (scale + max(abs(x), abs(y))) * mp.mpf(10) ** -35
            if abs(x) <= zero and abs(y) <= zero:
                continue
            if abs(x) <= zero or abs(y) <= zero or mp.im(x / y):
                first = None
                break
            first = x / y if first is None else first
            if not _close(first, x / y, mp.zero, mp, 25):
                first = None
                break
            count += 1
        if first is not None and count >= 2:
            return 1 if first > 0 else -1
    return 0


def near(decimal: Fraction, node: Node) -> bool:
    """True if an expression without variables, not an integer, is within 1e-4 of a decimal."""
    if variables(node):
        return False
    for base in _bases(node, node):
        for x, _, _ in _pairs(node, node, base):
            mp = _mp()
            if isinstance(x, mp.mpc) or mp.isinf(x) or _close(x, mp.nint(x), mp.zero, mp):
                continue
            written = mp.mpf(decimal.numerator) / decimal.denominator
            if abs(x - written) <= abs(x) * mp.mpf("1.0000000001e-4"):
                return True
    return False


def real(node: Node) -> Any:
    """The value of an expression without variables, None if it is not real."""
    if variables(node):
        return None
    for x, _, _ in _pairs(node, node, 0):
        return None if isinstance(x, _mp().mpc) else x
    return None


def order(a: Node, b: Node) -> int | None:
    """-1, 0 or 1 as a is below, equal to or above b; None if they cannot be compared."""
    if same(a, b):
        return 0
    x, y = real(a), real(b)
    return None if x is None or y is None else -1 if x < y else 1
