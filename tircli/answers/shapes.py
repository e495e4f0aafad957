"""Lists, sets, tuples, intervals, unions, matrices and plus-minus in a cleaned text.

A reader takes a text and `inner`, which reads a part of it; None means that it is something else.
"""

from __future__ import annotations

import re

from tircli.answers import regions
from tircli.answers.exact import exact
from tircli.answers.expression import Node, TooBig, negative, parse
from tircli.answers.text import depth, split
from tircli.answers.values import (
    Assigned,
    Family,
    Inner,
    Matrix,
    Named,
    Quantity,
    Region,
    Several,
    Value,
    Words,
    words,
)

MAX_PARTS = 100
RELATION = re.compile(r"\\(?:le|ge|ne|in|approx)(?![A-Za-z])|<|>|=")
_SEPARATORS = (",", ";", "‹or›", "‹and›", " or ", " and ")
_MATRIX = re.compile(
    r"(?:\\left)?[(\[]?\\begin\{([pbBvV]?matrix|array|smallmatrix)\}(?:\{[clr|]*\})?"
    r"(.*)\\end\{\1\}[)\]]?",
    re.S,
)


def listed(text: str, inner: Inner) -> Value | None:
    """Elements between commas, or, and."""
    parts = split(text, *_SEPARATORS)
    if len(parts) == 1:
        return None
    if len(parts) > MAX_PARTS:
        raise TooBig("too many elements")
    both = "‹and›" in text or " and " in text
    full = [part for part in parts if part]
    if len(full) < len(parts) - (len(parts) > 2):
        return words(text)
    if any(part.startswith(r"\ldots") for part in full):
        return Several("list", tuple(item(part, inner) for part in full), True)
    values = [inner(part) for part in full]
    if all(isinstance(value, Region) for value in values):
        found = [value for value in values if isinstance(value, Region)]
        if len({value.name for value in found}) == 1:
            return _joined(found, both)
    if isinstance(values[0], Named):
        return _named_list(values)
    return Several("list", flat(values))


def item(part: str, inner: Inner) -> Value:
    return Words(r"\ldots") if part.startswith(r"\ldots") else inner(part)


def _joined(found: list[Region], both: bool) -> Value | None:
    """Several inequalities: with `and`, or where they overlap, what they have in common."""
    try:
        common = found[0]
        for region in found[1:]:
            common = regions.intersection(common, region)
        return common if both or common.pieces else regions.union(found)
    except regions.Incomparable:
        return None


def _named_list(values: list[Value]) -> Value:
    named = [value for value in values if isinstance(value, Named)]
    names = tuple(value.name for value in named)
    if len(named) == len(values) and len(set(names)) == len(names):
        return Assigned(names, tuple(value.value for value in named))
    if len(set(names)) == 1 and len(named) in (1, len(values)):
        bare = [value.value if isinstance(value, Named) else value for value in values]
        return Named(names[0], Several("list", flat(bare)))
    return Several("list", flat(values))


def flat(values: list[Value]) -> tuple[Value, ...]:
    """The elements, with both values of each plus-minus."""
    out: list[Value] = []
    for value in values:
        out += value.parts if isinstance(value, Several) and value.kind == "list" else [value]
    return tuple(out)


def brackets(text: str, inner: Inner) -> Value | None:
    """A set, tuple, interval or vector."""
    french = re.fullmatch(r"([\[\]])([^\[\]]+)([\[\]])", text)
    if french and (french[1], french[3]) != ("[", "]"):
        left, right = {"]": "(", "[": "["}[french[1]], {"[": ")", "]": "]"}[french[3]]
        return brackets(f"{left}{french[2]}{right}", inner)
    for left, right in ((r"\{", r"\}"), ("{", "}")):
        if text.startswith(left) and text.endswith(right) and len(text) >= len(left + right):
            inside = text[len(left) : -len(right)]
            if depth(inside) is None or (left == "{" and "," not in inside):
                continue
            return _set(inside, inner)
    if len(text) < 3 or text[0] not in "([" or text[-1] not in ")]":
        return None
    inside = text[1:-1]
    if depth(inside) is None:
        return None
    parts = split(inside, ",", ";")
    if len(parts) == 1 and re.fullmatch(r"\d{1,3}(,\d{3})+", inside):
        parts = inside.split(",")
    if len(parts) == 1:
        return inner(inside) if text[0] == "(" and text[-1] == ")" and "=" in inside else None
    if not all(parts) or len(parts) > MAX_PARTS:
        return words(text)
    if any(r"\pm" in part for part in parts):
        return None
    return Several(text[0] + text[-1], tuple(inner(part) for part in parts))


def _set(inside: str, inner: Inner) -> Value:
    builder = re.fullmatch(r"\s*([a-z])\s*(?:\\in\s*\\mathbb\{R\}\s*)?(?:\\mid|\||:)(.*)", inside)
    if builder:
        found = inner(builder[2].strip())
        if isinstance(found, Region) and found.name == builder[1]:
            return Region(found.pieces)
    parts = split(inside, ",", ";", "‹and›")
    if len(parts) == 1 and re.fullmatch(r"\d{1,3}(,\d{3})+", inside.strip()):
        parts = inside.split(",")
    if len(parts) > MAX_PARTS:
        raise TooBig("too many elements")
    if len(parts) == 1 and isinstance(found := inner(inside), Family):
        return found
    dots = any(r"\ldots" in part for part in parts)
    return Several("set", flat([item(part, inner) for part in parts if part]), dots)


def plus_minus(text: str, inner: Inner) -> Value | None:
    r"""Both values of \pm: signs change together if a \mp says so, else each on its own."""
    marks = re.findall(r"\\pm(?![a-z])|\\mp(?![a-z])", text)
    if not marks or len(marks) > 3 or RELATION.search(text):
        return None
    pieces = re.split(r"\\pm(?![a-z])|\\mp(?![a-z])", text)
    together = r"\mp" in marks or len(marks) == 1
    texts = []
    for turn in range(2 if together else 2 ** len(marks)):
        out = pieces[0]
        for place, (mark, piece) in enumerate(zip(marks, pieces[1:], strict=True)):
            up = (turn == 0) if together else not turn >> place & 1
            out += ("+" if up == (mark == r"\pm") else "-") + piece
        texts.append(out.strip())
    return Several("list", flat([inner(one) for one in texts]))


def region(value: Value) -> Region | None:
    """A value as a set of reals, None if it is none."""
    if isinstance(value, Region):
        return value
    if not isinstance(value, Several) or value.dots:
        return None
    nodes = [part.node for part in value.parts if isinstance(part, Quantity)]
    if len(nodes) < len(value.parts):
        return None
    if value.kind == "set":
        return Region(tuple(regions.interval("[]", node, node).pieces[0] for node in nodes))  # type: ignore[union-attr]
    if value.kind != "list" and len(nodes) == 2:
        return regions.interval(value.kind, *nodes)
    return None


def union(text: str, inner: Inner) -> Value | None:
    """Unions, differences and named sets of reals."""
    named = re.fullmatch(r"\\mathbb\s*\{?R\}?\s*(?:(?:\^|_)\s*(?:\{([^{}]*)\}|([+-])))?", text)
    if named:
        mark = (named[1] or named[2] or "").replace(" ", "")
        zero: Node = parse("0")
        pieces = {"": None, "+": (">", zero), ">0": (">", zero), r"\ge0": (">=", zero),
                  "-": ("<", zero), "<0": ("<", zero)}  # fmt: skip
        if mark not in pieces:
            return None
        way = pieces[mark]
        found = regions.solve([("v", "x"), way[1]], [way[0]]) if way else regions.REALS
        return Region(found.pieces) if isinstance(found, Region) else None
    plain = re.fullmatch(
        r"‹?all real(?: number)?s?(?: x)?(?: except(?: for)?(.*))?", text.replace("›", "")
    )
    if plain:
        excepted = plain[1] and re.sub(r"^\s*(?:x\s*(?:=|\\ne))?\s*", "", plain[1])
        return inner(rf"\mathbb{{R}}\setminus\{{{excepted}\}}") if excepted else regions.REALS
    parts = split(text, r"\cup", " U ")
    joined: list[Region] = []
    if len(parts) > 1:
        for part in parts:
            one = region(inner(part))
            if one is None:
                return _set_union([inner(part) for part in parts])
            joined.append(one)
        try:
            return regions.union(joined)
        except regions.Incomparable:
            return Region(tuple(piece for one in joined for piece in one.pieces))
    parts = split(text, r"\cap")
    if len(parts) > 1:
        return _intersection([region(inner(part)) for part in parts])
    parts = split(text, r"\setminus")
    if len(parts) == 1 and re.match(r"\\mathbb\s*\{?R\}?\s*[-/]", text):
        parts = re.split(r"[-/]", text, maxsplit=1)
    if len(parts) != 2:
        return None
    whole, points = region(inner(parts[0])), inner(parts[1].strip())
    inside = points.parts if isinstance(points, Several) and points.kind == "set" else (points,)
    nodes = [part.node for part in inside if isinstance(part, Quantity)]
    if whole is None or len(nodes) < len(inside):
        return None
    try:
        return regions.without(nodes, whole)
    except regions.Incomparable:
        return None


def _intersection(found: list[Region | None]) -> Value | None:
    whole = [one for one in found if one is not None]
    if len(whole) < len(found):
        return None
    try:
        common = whole[0]
        for one in whole[1:]:
            common = regions.intersection(common, one)
        return common
    except regions.Incomparable:
        return None


def _set_union(values: list[Value]) -> Value | None:
    if all(isinstance(value, Several) and value.kind == "set" for value in values):
        return Several("set", tuple(p for v in values if isinstance(v, Several) for p in v.parts))
    return None


def matrix(text: str, inner: Inner) -> Value | None:
    system = re.fullmatch(r"\\begin\{(cases|aligned|array)\}([^&]*)\\end\{\1\}", text)
    if system and "=" in system[2]:
        return inner(", ".join(part for part in split(system[2], "\\\\", ",") if part))
    start = text.find(r"\begin{")
    factor = text[:start].rstrip(" ([").removesuffix(r"\cdot").strip() if start > 0 else ""
    match = _MATRIX.fullmatch(text[start:] if factor else text)
    if not match:
        return None
    rows = [row for row in split(match[2], "\\\\") if row.strip() and row.strip() != r"\hline"]
    cells = [[cell.strip() for cell in row.split("&")] for row in rows]
    if sum(map(len, cells)) > MAX_PARTS:
        raise TooBig("too many cells")
    if factor:
        cells = [[f"({factor})({cell})" for cell in row] for row in cells]
    found = Matrix(tuple(tuple(inner(cell) for cell in row) for row in cells))
    return _determinant(found) if match[1] == "vmatrix" else found


def _determinant(matrix: Matrix) -> Value | None:
    """The determinant of up to three rows as a quantity."""
    rows = [[cell.node for cell in row if isinstance(cell, Quantity)] for row in matrix.rows]
    if len(rows) > 3 or any(len(row) != len(rows) for row in rows):
        return None
    node = _expanded(rows)
    return Quantity(node, "", value=exact(node))


def _expanded(rows: list[list[Node]]) -> Node:
    if len(rows) == 1:
        return rows[0][0]
    terms = []
    for place, cell in enumerate(rows[0]):
        minor = _expanded([row[:place] + row[place + 1 :] for row in rows[1:]])
        term: Node = ("*", cell, minor)
        terms.append(negative(term) if place % 2 else term)
    return ("+", *terms)
