"""Rational values of expressions, exact and bounded by MAX_BITS."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tircli.answers.expression import Node, TooBig

MAX_BITS = 26_000


def _fits(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise TooBig("too big to compute")
    return value


@lru_cache(maxsize=8192)
def exact(node: Node) -> Fraction | None:
    """The rational value of a node without variables, None if it has no such plain value."""
    kind = node[0]
    if kind == "n":
        written: Fraction = node[1]
        return written
    if kind in ("v", "c"):
        return None
    if kind == "f":
        return _exact_function(node)
    values = []
    for part in node[1:]:
        value = exact(part)
        if value is None:
            return None
        values.append(value)
    if kind == "+":
        total = values[0]
        for value in values[1:]:
            total = _fits(total + value)
        return total
    if kind == "*":
        total = values[0]
        for value in values[1:]:
            total = _fits(total * value)
        return total
    if kind == "/":
        return _fits(values[0] / values[1]) if values[1] else None
    return _exact_power(*values)


def _exact_power(base: Fraction, power: Fraction) -> Fraction | None:
    if power.denominator != 1:
        root = _root(base, power.denominator)
        return None if root is None else _exact_power(root, Fraction(power.numerator))
    if base == 0:
        return None if power <= 0 else base
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and size * abs(power) > MAX_BITS:
        raise TooBig("too big to compute")
    return Fraction((-1) ** int(power % 2) if base == -1 else base**power if base != 1 else 1)


def _root(value: Fraction, degree: int) -> Fraction | None:
    """The rational root, None if it is irrational or not real."""
    if value < 0:
        root = _root(-value, degree) if degree % 2 else None
        return None if root is None else -root
    if degree > 64:
        return value if value in (0, 1) else None
    parts = []
    for whole in (value.numerator, value.denominator):
        if whole.bit_length() > 4000:
            return None
        guess = math.isqrt(whole) if degree == 2 else _integer_root(whole, degree)
        if guess**degree != whole:
            return None
        parts.append(guess)
    return Fraction(*parts)


def _integer_root(value: int, degree: int) -> int:
    """The integer part of a root, by bisection."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if middle**degree <= value else (low, middle - 1)
    return low


def _exact_function(node: Node) -> Fraction | None:
    name = node[1]
    if name not in ("factorial", "binom", "root", "abs", "floor", "ceil", "gcd", "lcm", "max",
                    "min"):  # fmt: skip
        return None
    found = [exact(part) for part in node[2:]]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return None
    first, last = values[0], values[-1]
    whole = all(value.denominator == 1 for value in values)
    if name == "abs":
        return abs(first)
    if name in ("floor", "ceil"):
        return Fraction(math.floor(first) if name == "floor" else math.ceil(first))
    if name in ("max", "min"):
        return max(values) if name == "max" else min(values)
    if name == "root":
        return _root(first, int(last)) if last.denominator == 1 and last > 1 else None
    if not whole:
        return None
    numbers = [int(value) for value in values]
    if name in ("gcd", "lcm"):
        return _fits(Fraction((math.gcd if name == "gcd" else math.lcm)(*numbers)))
    if name == "factorial":
        if numbers[0] < 0:
            return None
        if numbers[0] > 2000:
            raise TooBig("too big to compute")
        return Fraction(math.factorial(numbers[0]))
    n, k = numbers
    if not 0 <= k <= n:
        return Fraction(0) if n >= 0 else None
    if min(k, n - k) * n.bit_length() > MAX_BITS:
        raise TooBig("too big to compute")
    return Fraction(math.comb(n, k))
