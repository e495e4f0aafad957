"""Reads a cleaned text into a typed value; what cannot be read is words, or a formula for sympy."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from tircli.answers import relations, shapes, units, when
from tircli.answers.exact import exact
from tircli.answers.expression import TooBig, Unreadable, parse
from tircli.answers.number import check_time
from tircli.answers.text import spelled, split
from tircli.answers.values import InBase, Inner, Quantity, Ratio, Value, words

_BASE_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
               "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16}  # fmt: skip


@lru_cache(maxsize=4096)
def read(text: str, level: int = 0) -> Value:
    """The value of a cleaned text. Raises TooBig or OutOfTime."""
    check_time()
    if level > 12:
        raise TooBig("nested too deep")
    text = text.strip()
    for reader in _READERS:
        found = reader(text, lambda part: read(part, level + 1))
        if found is not None:
            return found
    return words(text)


def _base(text: str, inner: Inner) -> Value | None:
    """Digits with their base."""
    match = re.fullmatch(
        r"(?:‹|\()?([0-9A-Za-z]{1,400})(?:›|\))?_\{?\s*(?:‹?([a-z]+)›?|(\d{1,2}))\s*\}?", text
    )
    match = match or re.fullmatch(
        r"([0-9A-Za-z]{1,400})\s*[‹(]?\s*(?:in )?base[ -]([a-z]+)?(\d{1,2})?\s*[›)]?", text
    )
    if not match:
        return None
    base = _BASE_WORDS.get(match[2] or "", 0) or int(match[3] or 0)
    digits = match[1].upper()
    if not 2 <= base <= 36 or not re.search(r"\d", digits if base != 16 else "0"):
        return None
    if any(int(digit, 36) >= base for digit in digits):
        return None
    return InBase(digits.lstrip("0") or "0", base)


def _spelled(text: str, inner: Inner) -> Value | None:
    """A number in words."""
    named = spelled(text.replace("‹", "").replace("›", ""))
    return None if named is None else _quantity(named, inner)


def _when(text: str, inner: Inner) -> Value | None:
    """A date or a time of day that is no ratio."""
    plain = text.replace("‹", "").replace("›", "").strip()
    day = when.date(plain)
    if day:
        return day
    found = when.clock(plain)
    return Ratio((), found[0], True) if found and found[1] else None


def _ratio(text: str, inner: Inner) -> Value | None:
    parts = split(text, ":") if ":" in text else split(text, "‹to›", " to ")
    if not 2 <= len(parts) <= 8 or not all(parts):
        return None
    terms = tuple(inner(part) for part in parts)
    if not all(isinstance(term, Quantity) for term in terms):
        return None
    found = when.clock(text)
    return Ratio(terms, found[0] if found else None)


def _quantity(text: str, inner: Inner) -> Value | None:
    """An expression with unit or percent sign, or a number in words."""
    if re.fullmatch(r"[-+]?\d{1,3}(?: \d{3})+", text):
        text = text.replace(" ", "")
    body, unit = units.strip(re.sub(r"\s*‹?percent›?$", "%", text, flags=re.I))
    percent = False
    if body.endswith("%"):
        body, percent = body[:-1].strip(), True
    if "‹" in body:
        return None
    bare = re.sub(r"\\[A-Za-z]+|_\{[^{}]*\}", " ", body)
    if re.search(r"[A-Za-z]{4,}", bare) or re.fullmatch(
        r"[A-Za-z]{3,}|no|No|[A-Za-z]{2,} .*[A-Za-z]{3,}", bare.strip()
    ):
        return None
    try:
        node = parse(f"({body})/100" if percent else body)
    except Unreadable:
        return None
    product = relations.node(text) if unit and re.search(r"[\d)}]\s*[A-Za-z]$", text) else None
    written = re.fullmatch(
        r"[-+]?\s?((?:\d{1,3}(?:,\d{3})+|\d*)\.(\d+))((?:[eE]|\s?(?:\\times|\\cdot|\*)\s?10\s?\^).*)?",
        body,
    )
    digits = len(re.sub(r"[.,]", "", written[1]).lstrip("0")) if written else 0
    places = (len(written[2]) + 2 * percent) if written and not written[3] else 0
    return Quantity(node, body, unit, percent, digits, places, exact(node), product)


_READERS: tuple[Callable[[str, Inner], Value | None], ...] = (
    _spelled, _when, _base, relations.family, shapes.matrix, shapes.listed, shapes.brackets,
    shapes.union, shapes.plus_minus, relations.relation, _ratio, _quantity,
)  # fmt: skip
