"""Sets of reals: intervals, inequalities that can be solved, unions, and their equality."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from functools import cmp_to_key

from tircli.answers.expression import Node, minus, negative, substitute, variables
from tircli.answers.number import order, ratio, real, same
from tircli.answers.values import Piece, Region, Relation

_FLIP = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
REALS = Region((Piece(None, False, None, False),))
_STEPS = [Fraction(n, 10**power) for power in (6, 3, 1) for n in (-1, 1)]
_TRUE = {"<": lambda n: n < 0, ">": lambda n: n > 0, "<=": lambda n: n <= 0,
         ">=": lambda n: n >= 0, "!=": lambda n: n != 0, "=": lambda n: n == 0}  # fmt: skip
_TWO: Node = ("n", Fraction(2))


class Incomparable(ValueError):
    """Ends that have no order (they hold variables)."""


def without(points: list[Node], inside: Region = REALS) -> Region:
    """A region without some points."""
    for point in points:
        pieces: list[Piece] = []
        for piece in inside.pieces:
            if _holds(piece, point):
                pieces += [
                    Piece(piece.low, piece.low_closed, point, False),
                    Piece(point, False, piece.high, piece.high_closed),
                ]
            else:
                pieces.append(piece)
        inside = Region(tuple(pieces), inside.name)
    return union([inside])


def _compare(a: Node, b: Node) -> int:
    found = order(a, b)
    if found is None:
        raise Incomparable
    return found


def _low(a: Piece, b: Piece) -> int:
    """The order of two lower ends."""
    if a.low is None or b.low is None:
        return (a.low is not None) - (b.low is not None)
    return _compare(a.low, b.low) or int(b.low_closed) - int(a.low_closed)


def _high(a: Piece, b: Piece) -> int:
    """The order of two upper ends."""
    if a.high is None or b.high is None:
        return (a.high is None) - (b.high is None)
    return _compare(a.high, b.high) or int(a.high_closed) - int(b.high_closed)


def _holds(piece: Piece, point: Node) -> bool:
    low = -1 if piece.low is None else _compare(piece.low, point)
    high = 1 if piece.high is None else _compare(piece.high, point)
    return (low < 0 or (low == 0 and piece.low_closed)) and (
        high > 0 or (high == 0 and piece.high_closed)
    )


def _empty(piece: Piece) -> bool:
    if piece.low is None or piece.high is None:
        return False
    found = _compare(piece.low, piece.high)
    return found > 0 or (found == 0 and not (piece.low_closed and piece.high_closed))


def union(regions: list[Region]) -> Region:
    """The union, as sorted pieces that do not touch. Raises Incomparable."""
    pieces = [piece for region in regions for piece in region.pieces if not _empty(piece)]
    merged: list[Piece] = []
    for piece in sorted(pieces, key=cmp_to_key(_low)):
        if merged and _touch(merged[-1], piece):
            last = merged[-1]
            top = last if _high(last, piece) >= 0 else piece
            merged[-1] = Piece(last.low, last.low_closed, top.high, top.high_closed)
        else:
            merged.append(piece)
    return Region(tuple(merged), regions[0].name if regions else "")


def _touch(left: Piece, right: Piece) -> bool:
    if left.high is None or right.low is None:
        return True
    found = _compare(left.high, right.low)
    return found > 0 or (found == 0 and (left.high_closed or right.low_closed))


def intersection(a: Region, b: Region) -> Region:
    """What two regions have in common."""
    pieces = []
    for one in a.pieces:
        for other in b.pieces:
            low = one if _low(one, other) >= 0 else other
            high = one if _high(one, other) <= 0 else other
            pieces.append(Piece(low.low, low.low_closed, high.high, high.high_closed))
    return union([Region(tuple(pieces), a.name)])


def equal(a: Region, b: Region) -> bool:
    """True if two regions hold the same reals (piece by piece if their ends hold variables)."""
    if a.name and b.name and a.name != b.name:
        return False
    with suppress(Incomparable):
        a, b = union([a]), union([b])
    if len(a.pieces) != len(b.pieces):
        return False
    return all(
        (x.low_closed, x.high_closed) == (y.low_closed, y.high_closed)
        and _same_end(x.low, y.low)
        and _same_end(x.high, y.high)
        for x, y in zip(a.pieces, b.pieces, strict=True)
    )


def _same_end(a: Node | None, b: Node | None) -> bool:
    if a is None or b is None:
        return a is b
    return same(a, b)


def interval(brackets: str, low: Node, high: Node) -> Region | None:
    """The interval with these brackets, None if an infinite end is closed or on the wrong side."""
    ends: list[Node | None] = [low, high]
    for place, end in enumerate(ends):
        assert end is not None
        infinite = _infinite(end)
        if infinite:
            if brackets[place] not in "()" or infinite != (-1, 1)[place]:
                return None
            ends[place] = None
    return Region((Piece(ends[0], brackets[0] == "[", ends[1], brackets[1] == "]"),))


def _infinite(node: Node) -> int:
    """1 or -1 for plus or minus infinity, 0 for anything else."""
    infinity = ("c", "inf")
    return 1 if node == infinity else -1 if node == negative(infinity) else 0


def solve(sides: list[Node], signs: list[str]) -> Region | Relation | None:
    """The region of inequalities in one unknown; a Relation if one has no short solution."""
    found: list[Region] = []
    for left, sign, right in zip(sides[:-1], signs, sides[1:], strict=True):
        one = _solve(left, sign, right)
        if not isinstance(one, Region):
            return one if len(signs) == 1 else None
        found.append(one)
    if len({region.name for region in found}) != 1:
        return None
    region = found[0]
    for other in found[1:]:
        region = intersection(region, other)
    return region


def _solve(left: Node, sign: str, right: Node) -> Region | Relation:
    names = variables(left) | variables(right)
    whole = Relation(minus(left, right), sign)
    if len(names) != 1:
        if right[0] == "v" and left[0] != "v":
            left, right, sign = right, left, _FLIP[sign]
        if left[0] == "v" and left[1] not in variables(right):
            return _ray(right, sign, left[1])
        return whole
    (name,) = names
    for a, b, way in ((left, right, sign), (right, left, _FLIP[sign])):
        if a == ("v", name) and not variables(b):
            infinite = _infinite(b)
            return whole if infinite else _ray(b, way, name)
        if a[:2] == ("f", "abs") and not variables(b) and (real(b) or 0) > 0 and way != "=":
            return _solve_abs(a[2], way, b) or whole
    return _solve_polynomial(whole, name)


def _ray(end: Node, sign: str, name: str) -> Region:
    closed = "=" in sign
    if sign == "!=":
        return without([end], Region(REALS.pieces, name))
    if sign == "=":
        return Region((Piece(end, True, end, True),), name)
    if sign[0] == "<":
        return Region((Piece(None, False, end, closed),), name)
    return Region((Piece(end, closed, None, False),), name)


def _solve_abs(inner: Node, sign: str, bound: Node) -> Region | None:
    below, above = _solve(inner, sign, bound), _solve(inner, _FLIP[sign], negative(bound))
    if not (isinstance(below, Region) and isinstance(above, Region)):
        return None
    if sign == "!=" or sign[0] == "<":
        return intersection(below, above)
    return union([below, above])


def _solve_polynomial(whole: Relation, name: str) -> Region | Relation:
    """The region of a relation of degree one or two."""
    at = {n: substitute(whole.left, name, ("n", Fraction(n))) for n in (-1, 0, 1)}
    c = at[0]
    b: Node = ("/", minus(at[1], at[-1]), _TWO)
    a: Node = minus(("/", ("+", at[1], at[-1]), _TWO), c)
    x: Node = ("v", name)
    if not same(whole.left, ("+", ("*", a, x, x), ("*", b, x), c)):
        return whole
    a_sign, b_sign = order(a, ("n", Fraction(0))), order(b, ("n", Fraction(0)))
    if a_sign is None or b_sign is None or (a_sign == 0 and b_sign == 0):
        return whole
    if a_sign == 0:
        sign = whole.sign if b_sign > 0 else _FLIP[whole.sign]
        return _ray(("/", negative(c), b), sign, name)
    inside = minus(("*", b, b), ("*", ("n", Fraction(4)), a, c))
    if (real(inside) or -1) < 0 or whole.sign in ("=", "!="):
        return whole
    root: Node = ("f", "root", inside, _TWO)
    bottom: Node = ("*", _TWO, a)
    ends = [("/", ("+", negative(b), way), bottom) for way in (negative(root), root)]
    low, high = ends if a_sign > 0 else ends[::-1]
    sign = whole.sign if a_sign > 0 else _FLIP[whole.sign]
    if sign[0] == "<":
        return Region((Piece(low, "=" in sign, high, "=" in sign),), name)
    return union([_ray(low, "<" + sign[1:], name), _ray(high, ">" + sign[1:], name)])


def holds(relation: Relation, region: Region) -> bool:
    """True if a relation in one unknown is true inside a region and false outside, at many points.

    The points are the ends, their neighbours, and others spread over the line.
    """
    (name,) = variables(relation.left)
    if region.name not in ("", name):
        return False
    ends = [end for piece in region.pieces for end in (piece.low, piece.high) if end is not None]
    points = [*ends, *(("+", end, ("n", step)) for end in ends for step in _STEPS)]
    points += [("n", Fraction(n * n * n, 1013) * sign) for n in range(40) for sign in (1, -1)]
    zero: Node = ("n", Fraction(0))
    for point in points:
        found = order(substitute(relation.left, name, point), zero)
        truth = found is not None and _TRUE[relation.sign](found)
        if truth != any(_holds(piece, point) for piece in region.pieces):
            return False
    return True


def as_relation(region: Region) -> Relation | None:
    """A ray of a named unknown as a relation (y <= 2x + 1), None for anything else."""
    if not region.name or len(region.pieces) != 1:
        return None
    (piece,) = region.pieces
    if (piece.low is None) == (piece.high is None):
        return None
    end, closed = (
        (piece.high, piece.high_closed) if piece.low is None else (piece.low, piece.low_closed)
    )
    assert end is not None
    sign = ("<" if piece.low is None else ">") + "=" * closed
    return Relation(minus(("v", region.name), end), sign)


def proportional(a: Relation, b: Relation) -> bool:
    """True if two relations are the same but for a constant factor (whose sign turns < to >)."""
    factor = ratio(a.left, b.left)
    return factor != 0 and (a.sign if factor > 0 else _FLIP[a.sign]) == b.sign
