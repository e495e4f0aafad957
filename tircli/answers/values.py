"""What an answer can be once it is read: typed values, compared by `tircli.answers.math`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from tircli.answers.expression import Node
from tircli.answers.text import tight
from tircli.answers.units import Unit


@dataclass(frozen=True)
class Words:
    """Text in words, folded."""

    text: str


@dataclass(frozen=True)
class Formula:
    """Mathematics that only the symbolic worker can read."""

    text: str


@dataclass(frozen=True)
class Quantity:
    """An expression, with its unit."""

    node: Node
    text: str
    unit: Unit | None = None
    percent: bool = False
    digits: int = 0
    """Significant digits of a written decimal, 0 for anything else."""
    places: int = 0
    """Its decimal places."""
    value: Fraction | None = None
    """The exact value where it is rational."""
    product: Node | None = None
    """The same letters read as variables, where a letter was read as a unit (`12 m`)."""


@dataclass(frozen=True)
class Several:
    """Elements."""

    kind: str
    """`set` and `list` in any order; else its two brackets, in order."""
    parts: tuple[Value, ...]
    dots: bool = False
    """True if an ellipsis stands in it; the order counts then."""


@dataclass(frozen=True)
class Matrix:
    """Rows of cells."""

    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True)
class Piece:
    """An interval of the reals; an end of None is infinite; equal closed ends are a point."""

    low: Node | None
    low_closed: bool
    high: Node | None
    high_closed: bool


@dataclass(frozen=True)
class Region:
    """A set of reals as a union of pieces, or of one unknown that is named."""

    pieces: tuple[Piece, ...]
    name: str = ""


@dataclass(frozen=True)
class Relation:
    """`left sign 0` where no region could be solved for."""

    left: Node
    sign: str
    """One of = < <= > >= !=."""


@dataclass(frozen=True)
class Named:
    """A value under a name (`x = 5`, `f(x) = 2x`); `zero` is left minus right if both are read."""

    name: str
    value: Value
    zero: Node | None = None


@dataclass(frozen=True)
class Assigned:
    """Values under several names (`x = 1, y = 2`)."""

    names: tuple[str, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Family:
    """Expressions in a parameter that runs through the integers (Z) or another set."""

    parts: tuple[Value, ...]
    parameter: str
    domain: str


@dataclass(frozen=True)
class InBase:
    """Digits written in a base."""

    digits: str
    base: int


@dataclass(frozen=True)
class Ratio:
    """Terms between colons; `clock` when it can be read as a time."""

    terms: tuple[Value, ...]
    clock: tuple[int, int, str] | None = None
    """Minutes of the day, seconds, and `half` (am or pm is written), `24` or an empty string."""
    only_clock: bool = False


@dataclass(frozen=True)
class Date:
    """A day; what is not written is 0."""

    year: int
    month: int
    day: int


Value = (
    Words
    | Formula
    | Quantity
    | Several
    | Matrix
    | Region
    | Relation
    | Named
    | Assigned
    | Family
    | InBase
    | Ratio
    | Date
)

Inner = Callable[[str], Value]
"""Reads a part of a text."""

_SYMBOLIC = re.compile(
    r"\\(?:int|iint|oint|sum|prod|lim|partial|nabla|det|pmod|bmod|Re|Im|arg)(?![a-z])"
)


def words(text: str) -> Value:
    """A text as folded words, or as a formula if it looks like one that sympy may know."""
    plain = re.sub(r"\\[A-Za-z]+", "", text)
    if _SYMBOLIC.search(text) and "‹" not in text and not re.search("[A-Za-z]{4,}", plain):
        return Formula(text)
    return Words(fold(text))


def fold(text: str) -> str:
    """Words in lower case, without marks, articles in front and punctuation around."""
    text = text.replace("‹", "").replace("›", "").casefold()
    if "\\" not in text:
        text = re.sub(r"[\"'`.!?]", "", text).replace(",", " ")
        text = re.sub(r"(?<=\w)-(?=\w)", " ", text)
        text = re.sub(r"^(?:the|an?)\s+(?=\w{2})", "", text.strip())
        return " ".join(text.split())
    return tight(text)
