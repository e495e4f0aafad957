"""Verdicts on two read values."""

from __future__ import annotations

import re
from fractions import Fraction

from tircli.answers import Rules, Verdict, regions
from tircli.answers.exact import exact
from tircli.answers.expression import Node, minus, substitute, variables
from tircli.answers.families import families
from tircli.answers.number import near, ratio, same
from tircli.answers.shapes import region
from tircli.answers.values import (
    Assigned,
    Date,
    Family,
    InBase,
    Matrix,
    Named,
    Quantity,
    Ratio,
    Region,
    Relation,
    Several,
    Value,
    Words,
)

NO = Verdict(False, "different")
EMPTY = Words(r"\emptyset")


def _quantities(a: Quantity, b: Quantity, rules: Rules) -> Verdict:
    """The verdict on two expressions with or without units."""
    if a.percent != b.percent and rules.percent == "sign":
        return Verdict(False, "percent sign on one side only")
    if bool(a.unit) != bool(b.unit):
        one, other = (a, b) if a.unit else (b, a)
        if one.product and variables(other.node) & variables(one.product):
            return Verdict(same(one.product, other.node), "symbolic")
        if rules.units == "required":
            return Verdict(False, "unit on one side only")
    left, right = a.node, b.node
    converted = False
    if a.unit and b.unit and a.unit != b.unit:
        if a.unit.dimensions != b.unit.dimensions:
            return Verdict(False, "units differ")
        left, right, converted = _in_base_units(a), _in_base_units(b), True
    x, y = exact(left), exact(right)
    if x is not None and x == y:
        return Verdict(True, "units converted" if converted else "exact number")
    tolerant = _decimal(a, b, x, y, left, right)
    if tolerant is not None:
        return tolerant
    if x is not None and y is not None:
        return Verdict(False, "units converted" if converted else "exact number")
    return Verdict(same(left, right), "symbolic" if variables(left) else "same value")


def _in_base_units(quantity: Quantity) -> Node:
    unit = quantity.unit
    assert unit is not None
    node: Node = ("*", quantity.node, ("n", unit.size))
    for _ in range(abs(unit.radian)):
        turn: Node = ("/", ("c", "pi"), ("n", Fraction(180)))
        node = ("*", node, turn) if unit.radian > 0 else ("/", node, turn)
    return ("+", node, ("n", unit.zero)) if unit.zero else node


def _decimal(
    a: Quantity, b: Quantity, x: Fraction | None, y: Fraction | None, left: Node, right: Node
) -> Verdict | None:
    """The verdict on a written decimal against an exact value or another decimal, None else."""
    if a.digits and b.digits:
        if x is None or y is None or not (a.places and b.places) or a.places == b.places:
            return None
        short, _ = (a, b) if a.places < b.places else (b, a)
        s, t = (x, y) if short is a else (y, x)
        rounded = 2 * abs(s - t) * 10**short.places <= 1 and s.denominator != 1
        close = abs(s - t) * 10000 <= abs(t)
        return Verdict(short.digits >= 3 and rounded and close, "one decimal rounded")
    if max(a.digits, b.digits) < 3:
        return None
    decimal, node, value = (x, right, y) if a.digits else (y, left, x)
    if decimal is None or value == 0:
        return None
    if value is not None:
        if value.denominator == 1:
            return None
        return Verdict(abs(value - decimal) * 10000 <= abs(value), "decimal within 1e-4")
    return Verdict(near(decimal, node), "decimal within 1e-4")


def _parts(a: tuple[Value, ...], b: tuple[Value, ...], rules: Rules, ordered: bool) -> Verdict:
    """The verdict on elements, in order or as a matching in any order."""
    if len(a) != len(b):
        return Verdict(False, "different number of elements")
    if ordered:
        for place, (one, other) in enumerate(zip(a, b, strict=True), 1):
            if not compare(one, other, rules).equal:
                return Verdict(False, f"element {place} differs")
        return Verdict(True, "elementwise")
    rest = list(b)
    for one in a:
        found = next((c for c in rest if c == one), None)
        found = found or next((c for c in rest if compare(one, c, rules).equal), None)
        if found is None:
            return Verdict(False, "an element is missing")
        rest.remove(found)
    return Verdict(True, "same elements")


def _distinct(parts: tuple[Value, ...], rules: Rules) -> tuple[Value, ...]:
    """The elements of a set, each once."""
    kept: list[Value] = []
    for part in parts:
        if not any(part == other or compare(part, other, rules).equal for other in kept):
            kept.append(part)
    return tuple(kept)


def _several(a: Several, b: Several, rules: Rules) -> Verdict:
    loose = ("set", "list")
    if a.kind in loose and b.kind in loose:
        if a.dots or b.dots:
            return _parts(a.parts, b.parts, rules, ordered=True)
        left, right = a.parts, b.parts
        if "set" in (a.kind, b.kind) and len(left) != len(right):
            left, right = _distinct(left, rules), _distinct(right, rules)
        return _parts(left, right, rules, ordered=False)
    if a.kind != b.kind:
        for one, other in ((a, b), (b, a)):
            if one.kind == "set" and len(one.parts) == 1:
                return compare(one.parts[0], other, rules)
        return Verdict(False, "different brackets")
    return _parts(a.parts, b.parts, rules, ordered=True)


def _matrices(a: Matrix, b: Matrix, rules: Rules) -> Verdict:
    if [len(row) for row in a.rows] != [len(row) for row in b.rows]:
        return Verdict(False, "matrix shapes differ")
    cells = [tuple(cell for row in side.rows for cell in row) for side in (a, b)]
    return _parts(cells[0], cells[1], rules, ordered=True)


def _rows(listed: Several) -> Matrix | None:
    """Lists of equal length in a list as a matrix ([[1,2],[3,4]]), None for anything else."""
    rows = [part.parts for part in listed.parts if isinstance(part, Several) and part.kind == "[]"]
    if listed.kind != "[]" or len(rows) < len(listed.parts) or len(set(map(len, rows))) != 1:
        return None
    return Matrix(tuple(rows))


def _function(name: str) -> tuple[str, str] | None:
    """The name and the one-letter variable of a function (`f(x)`), None for other names."""
    match = re.fullmatch(r"(.+)\(([a-z])\)", name)
    return (match[1], match[2]) if match else None


def _named(a: Named, b: Named, rules: Rules) -> Verdict:
    if a.name == b.name:
        found = compare(a.value, b.value, rules)
        if found.equal:
            return found
    one, other = _function(a.name), _function(b.name)
    if (one and b.name == "y") or (other and a.name == "y"):
        return compare(a.value, b.value, rules)
    if one and other and one[0] == other[0] and one[1] != other[1]:
        value = b.value
        if isinstance(value, Quantity) and one[1] not in variables(value.node):
            node = substitute(value.node, other[1], ("v", one[1]))
            return compare(a.value, Quantity(node, value.text, value.unit), rules)
    if a.zero and b.zero and _is_curve(a) and _is_curve(b):
        return Verdict(ratio(a.zero, b.zero) != 0, "equations")
    return Verdict(False, "different values" if a.name == b.name else "different names")


def _solves(named: Named, relation: Relation) -> bool:
    """True if an equation is a multiple of `name = value`, or linear in the name and so solved."""
    if named.zero is None or relation.sign != "=":
        return False
    if ratio(named.zero, relation.left) != 0:
        return True
    f, name = relation.left, named.name
    if not isinstance(named.value, Quantity) or name in variables(named.value.node):
        return False
    at = [substitute(f, name, ("n", Fraction(n))) for n in (0, 1)]
    slope = minus(at[1], at[0])
    zero: Node = ("n", Fraction(0))
    return (
        same(substitute(f, name, named.value.node), zero)
        and same(f, ("+", at[0], ("*", slope, ("v", name))))
        and not same(slope, zero)
    )


def _is_curve(named: Named) -> bool:
    """True if a named value is an equation between variables, not the value of one."""
    return isinstance(named.value, Quantity) and bool(variables(named.value.node))


def _assigned(a: Assigned, b: Value, rules: Rules) -> Verdict:
    """Named values, in any order of the names; without names in the order of the alphabet."""
    order = sorted(range(len(a.names)), key=lambda i: a.names[i])
    values = tuple(a.values[i] for i in order)
    if isinstance(b, Assigned):
        other = sorted(range(len(b.names)), key=lambda i: b.names[i])
        if [a.names[i] for i in order] != [b.names[i] for i in other]:
            return Verdict(False, "different names")
        return _parts(values, tuple(b.values[i] for i in other), rules, ordered=True)
    if isinstance(b, Several) and b.kind in ("()", "list") and not b.dots:
        return _parts(values, b.parts, rules, ordered=True)
    return Verdict(False, "named values against something else")


def _ratios(a: Ratio, b: Ratio, rules: Rules) -> Verdict:
    if a.only_clock or b.only_clock or (a.clock and b.clock):
        if not (a.clock and b.clock):
            return Verdict(False, "a time against a ratio")
        (x, s, one), (y, t, other) = a.clock, b.clock
        half = {one, other} == {"", "half"} and (x - y) % 720 == 0
        return Verdict(s == t and (x == y or half), "time of day")
    if len(a.terms) != len(b.terms):
        return Verdict(False, "different number of terms")
    pairs = [(p.node, q.node) for p, q in zip(a.terms, b.terms, strict=True)
             if isinstance(p, Quantity) and isinstance(q, Quantity)]  # fmt: skip
    (p, q), *rest = pairs
    equal = all(same(("*", r, q), ("*", s, p)) for r, s in rest)
    zero: Node = ("n", Fraction(0))
    equal = equal and not any(same(node, zero) for pair in pairs for node in pair)
    return Verdict(equal, "ratio")


def compare(a: Value, b: Value, rules: Rules) -> Verdict:
    """The verdict on two read values. Raises TooBig or OutOfTime."""
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        return _quantities(a, b, rules)
    if isinstance(a, Assigned) or isinstance(b, Assigned):
        return _assigned(a, b, rules) if isinstance(a, Assigned) else _assigned(b, a, rules)  # type: ignore[arg-type]
    if isinstance(a, Named) and isinstance(b, Named):
        return _named(a, b, rules)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Named) and isinstance(other, Relation):
            return Verdict(_solves(one, other), "equations")
    if isinstance(a, Named) or isinstance(b, Named):
        return compare(
            a.value if isinstance(a, Named) else a, b.value if isinstance(b, Named) else b, rules
        )
    if isinstance(a, Family) and isinstance(b, Family):
        return families(a, b)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Family):
            parts = other.parts if isinstance(other, Several) else (other,)
            return families(one, Family(parts, one.parameter, one.domain))
    if isinstance(a, Relation) and isinstance(b, Relation):
        return Verdict(regions.proportional(a, b), "proportional")
    for one, other in ((a, b), (b, a)):
        inside = region(other)
        if isinstance(one, Relation) and inside and len(variables(one.left)) == 1:
            return Verdict(regions.holds(one, inside), "true on the same reals")
    rays = [regions.as_relation(x) if isinstance(x, Region) else x for x in (a, b)]
    if (
        isinstance(rays[0], Relation)
        and isinstance(rays[1], Relation)
        and len(variables(rays[0].left)) > 1
    ):
        return Verdict(regions.proportional(rays[0], rays[1]), "proportional")
    left, right = region(a), region(b)
    if left and right and (isinstance(a, Region) or isinstance(b, Region)):
        return Verdict(regions.equal(left, right), "sets of reals")
    if isinstance(a, Several) and isinstance(b, Several):
        return _several(a, b, rules)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Several):
            rows = _rows(one)
            if isinstance(other, Matrix) and rows:
                return _matrices(rows, other, rules)
            if one.kind in ("set", "list") and one.parts:
                parts = _distinct(one.parts, rules)
                if len(parts) == 1 and not one.dots and parts[0] != EMPTY:
                    return compare(parts[0], other, rules)
            return Verdict(False, "one value against several")
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        return _matrices(a, b, rules)
    if isinstance(a, Ratio) and isinstance(b, Ratio):
        return _ratios(a, b, rules)
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Ratio) and len(one.terms) == 2 and isinstance(other, Quantity):
            top, bottom = (term.node for term in one.terms if isinstance(term, Quantity))
            return Verdict(
                not one.clock and same(("/", top, bottom), other.node), "ratio as a fraction"
            )
    if isinstance(a, Date) and isinstance(b, Date):
        return Verdict(a == b, "dates")
    if isinstance(a, InBase) and isinstance(b, InBase):
        return Verdict(a == b, "digits and base")
    if isinstance(a, InBase) or isinstance(b, InBase):
        return Verdict(False, "base on one side only")
    if isinstance(a, Words) and isinstance(b, Words):
        equal = bool(a.text) and a.text == b.text
        return Verdict(equal, "same words" if equal else "different words")
    return NO
