"""Equality of families of solutions: expressions in a parameter that runs through the integers."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

from tircli.answers import Verdict
from tircli.answers.expression import Node, TooBig, minus, substitute, variables
from tircli.answers.number import real, same
from tircli.answers.values import Family, Quantity

MAX_TERMS = 400
_ZERO: Node = ("n", Fraction(0))
_ONE: Node = ("n", Fraction(1))


def families(a: Family, b: Family) -> Verdict:
    """The verdict on two families: as sets of values where all parts are linear, else by parts."""
    if a.domain != b.domain:
        return Verdict(False, "different domains")
    one, other = _progressions(a), _progressions(b)
    if a.domain != "Z" or one is None or other is None:
        return Verdict(_renamed(a, b), "families of solutions")
    steps = [_multiple(step, one[0][1]) for _, step in one + other]
    sizes = [abs(step) for step in steps if step]
    if len(sizes) < len(steps):
        return Verdict(False, "different steps")
    bottom = lcm(*(size.denominator for size in sizes))
    period = Fraction(lcm(*(int(size * bottom) for size in sizes)), bottom)
    if sum(period / size for size in sizes) > MAX_TERMS:
        raise TooBig("too big to compute")
    whole: Node = ("*", one[0][1], ("n", period))
    left = _residues(one, sizes[: len(one)], period, whole)
    right = _residues(other, sizes[len(one) :], period, whole)
    if left is None or right is None:
        return Verdict(False, "no real solutions")
    return Verdict(_covers(left, right) and _covers(right, left), "families of solutions")


def _renamed(a: Family, b: Family) -> bool:
    """True if the parts are equal, one to one, once the parameter is renamed."""
    mine = [part.node for part in a.parts if isinstance(part, Quantity)]
    theirs = [
        substitute(part.node, b.parameter, ("v", a.parameter))
        for part in b.parts
        if isinstance(part, Quantity)
    ]
    if len(mine) != len(a.parts) or len(mine) != len(theirs):
        return False
    for node in mine:
        found = next((other for other in theirs if same(node, other)), None)
        if found is None:
            return False
        theirs.remove(found)
    return True


def _progressions(family: Family) -> list[tuple[Node, Node]] | None:
    """Start and step of each part, None if one is not linear in the parameter alone."""
    out = []
    for part in family.parts:
        if not isinstance(part, Quantity) or variables(part.node) - {family.parameter}:
            return None
        start = substitute(part.node, family.parameter, _ZERO)
        step = minus(substitute(part.node, family.parameter, _ONE), start)
        if not same(part.node, ("+", start, ("*", step, ("v", family.parameter)))):
            return None
        out.append((start, step))
    return out


def _multiple(step: Node, unit: Node) -> Fraction | None:
    """step / unit as a fraction with a small denominator, None if it is none."""
    value = real(("/", step, unit))
    if value is None:
        return None
    found = Fraction(str(value)).limit_denominator(1000)
    return found if same(("/", step, unit), ("n", found)) else None


def _residues(
    parts: list[tuple[Node, Node]], sizes: list[Fraction], period: Fraction, whole: Node
) -> list[Any] | None:
    """Where the values lie within one period, in periods; None if they are not real."""
    out = []
    for (start, _), size in zip(parts, sizes, strict=True):
        first = real(("/", start, whole))
        if first is None:
            return None
        turns = int(period / size)
        out += [first + (first * 0 + turn) / turns for turn in range(turns)]
    return out


def _covers(left: list[Any], right: list[Any]) -> bool:
    """True if every residue on the right is one on the left, but for whole periods."""
    return all(any(abs((x - y) - round(x - y)) < 1e-30 for x in left) for y in right)
