"""Equations, names, inequalities, congruences and families of solutions in a cleaned text."""

from __future__ import annotations

import re
from itertools import pairwise

from tircli.answers import regions
from tircli.answers.expression import Node, TooBig, Unreadable, minus, parse, variables
from tircli.answers.number import same
from tircli.answers.shapes import RELATION, region
from tircli.answers.text import outside, tight
from tircli.answers.values import (
    Assigned,
    Family,
    Inner,
    Named,
    Quantity,
    Region,
    Relation,
    Several,
    Value,
    words,
)

MAX_SIGNS = 20
MAX_CLAUSE = 80
_SIGNS = {r"\le": "<=", r"\ge": ">=", r"\ne": "!="}
_NAME = re.compile(
    r"[A-Za-z](?:_\{?\w+\}?)?'*|\\[a-z]+(?:_\{?\w+\}?)?|[A-Z]{2,4}|\|[A-Z]{2}\||"
    r"\\?[A-Za-z]{1,5}(?:_\{?\w+\}?)?(?:\^\{?-1\}?)?'*\s?\([^()=]{1,40}\)|"
    r"\\(?:angle|triangle|overline)\s?\{?[A-Z]{1,4}\}?|"
    r"‹[^‹›]+›|\\(?:sin|cos|tan)\s?(?:\\[a-z]+|[A-Za-z])|[a-z]{4,20}(?: [a-z]{2,20}){0,3}",
    re.S,
)
_DOMAIN = re.compile(
    r"[\s,;:]*[(\[]?\s*(?:\\quad)?\s*(?:‹?\s*[(\[]?(?:where|for|with)?\s*(?:all|any|every|some|each)?\s*"
    r"(?:integers?)?\s*›?)\s*([a-zA-Z])\s*(?:\\in\s*\\mathbb\s*\{?([ZNRQ])\}?(?:\^\{?\+\}?)?|"
    r"\\in\s*([Z])(?![a-z])|(?:‹\s*)?(?:is (?:an|any)|any|an)? ?\b(integer)s?\s*[)\]]?›?)\s*[)\]]?$"
)
_INTEGER = re.compile(
    r"[\s,;]+(?:‹\s*)?(?:where|for|with) (?:all |any |every |some |each )?(integers?)\s*›?\s*"
    r"([a-z])$"
)


def family(text: str, inner: Inner) -> Value | None:
    """Expressions in an integer parameter, with the clause that says so."""
    found = _DOMAIN.search(text, max(0, len(text) - MAX_CLAUSE))
    congruence = re.fullmatch(
        r"(.*)\\equiv(.*?)\(?\s*\\(?:pmod|bmod|mod)\s*\{?\s*(\d{1,9})\s*\}?\)?", text
    )
    if congruence:
        family = inner(f"{congruence[2].strip()}+{congruence[3]} k")
        name = congruence[1].strip()
        value = Family((family,), "k", "Z")
        return Named(name, value) if name else value
    if found and found.start() > 0:
        letter, domain = found[1], found[2] or "Z"
    else:
        found = _INTEGER.search(text, max(0, len(text) - MAX_CLAUSE))
        if not found:
            return None
        letter, domain = found[2], "Z"
    body = inner(text[: found.start()].strip().rstrip(","))
    name = ""
    if isinstance(body, Named):
        name, body = body.name, body.value
    parts = body.parts if isinstance(body, Several) and body.kind in ("list", "set") else (body,)
    if not all(isinstance(part, Quantity) for part in parts):
        return None
    if not any(isinstance(p, Quantity) and letter in variables(p.node) for p in parts):
        return None
    family = Family(parts, letter, domain)
    return Named(name, family) if name else family


def sides(text: str) -> tuple[list[str], list[str]]:
    """What stands between relation signs outside brackets, and the signs."""
    parts, signs, start = [], [], 0
    for begin, end in outside(text, RELATION.pattern):
        parts.append(text[start:begin].strip())
        signs.append(_SIGNS.get(text[begin:end], text[begin:end]))
        start = end
    if len(signs) > MAX_SIGNS:
        raise TooBig("too many relations")
    return [*parts, text[start:].strip()], signs


def relation(text: str, inner: Inner) -> Value | None:
    """Equations, names, membership and inequalities."""
    if not RELATION.search(text):
        return None
    parts, signs = sides(text)
    if not signs:
        return None
    if signs == [r"\approx"] and not parts[0]:
        return inner(parts[1])
    if not all(parts):
        return words(text)
    if signs == [r"\in"]:
        found = inner(parts[1])
        inside = region(found)
        name = tight(parts[0])
        return Region(inside.pieces, name) if inside and inside is not None else Named(name, found)
    if all(sign in ("=", r"\approx") for sign in signs):
        return _equation(text, parts, signs, inner)
    nodes = [node(part) for part in parts]
    if r"\in" in signs or r"\approx" in signs or None in nodes:
        return words(text)
    try:
        found_region = regions.solve([node for node in nodes if node is not None], signs)
    except regions.Incomparable:
        found_region = None
    return words(text) if found_region is None else found_region


def node(text: str) -> Node | None:
    """The node of a text, None if it cannot be read."""
    try:
        return parse(text)
    except Unreadable:
        return None


def _equation(text: str, parts: list[str], signs: list[str], inner: Inner) -> Value:
    name, rest = parts[0], parts[1:]
    if len(parts) == 2 and re.fullmatch(r"\(\s?[a-z]\s?(?:,\s?[a-z]\s?)+\)", name):
        point = inner(rest[0])
        names = tuple(re.findall("[a-z]", name))
        if isinstance(point, Several) and len(point.parts) == len(names) == len(set(names)):
            return Assigned(names, point.parts)
    if not _NAME.fullmatch(name) and len(parts) == 2 and _NAME.fullmatch(parts[1]):
        name, rest = parts[1], parts[:1]
    chain = [inner(part) for part in (rest if _NAME.fullmatch(name) else parts)]
    if _NAME.fullmatch(name):
        value = _chained(chain, signs[1:])
        if value is None:
            return words(text)
        left = node(name)
        plain = isinstance(value, Quantity) and left is not None
        zero = minus(left, value.node) if plain else None  # type: ignore[arg-type, union-attr]
        return Named(tight(name).strip("‹›"), value, zero)
    value = _chained(chain, signs)
    if value is not None:
        return value
    nodes = [node(part) for part in parts]
    if (
        len(nodes) == 2
        and nodes[0] is not None
        and nodes[1] is not None
        and "\\approx" not in signs
    ):
        return Relation(minus(nodes[0], nodes[1]), "=")
    return words(text)


def _chained(chain: list[Value], signs: list[str]) -> Value | None:
    """The value of a = b = c: the last, or what is before an approximation; None if they differ."""
    if len(chain) == 1:
        return chain[0]
    quantities = [part for part in chain if isinstance(part, Quantity)]
    if len(quantities) < len(chain):
        return None
    if r"\approx" in signs:
        at = signs.index(r"\approx") + 1
        quantities, signs = quantities[:at], signs[: at - 1]
    if len(quantities) > 1 and any(variables(part.node) for part in quantities):
        return None
    for one, other in pairwise(quantities):
        if not same(one.node, other.node):
            return None
    return quantities[-1]
