"""Judging of answers: mathematical equality and question answering scores."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import comb, factorial

MAX_BITS = 13000
_CLOSE = {"(": ")", "{": "}"}
_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_WORDS = {word: n for n, word in enumerate(_ONES)}
_WORDS |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
_WORDS |= {f"{t}-{o}": 10 * n + _ONES.index(o) for n, t in enumerate(_TENS, 2) for o in _ONES[1:10]}
_WORDS |= {"hundred": 100, "one hundred": 100}
THOUSANDS = re.compile(r"-?\d{1,3}(,\d{3})+(\.\d+)?(?!\d)(?!,)")


@dataclass(frozen=True)
class Verdict:
    """Whether two answers are equal, and the reason in a few words."""

    equal: bool
    why: str


class TooBig(Exception):
    """A number which shall not be computed."""


class _Exact:
    """Reads exact arithmetic: numbers, + - * / ^ !, fractions, binomials, brackets."""

    token = re.compile(r"\d+\.\d*|\.\d+|\d+|\\[a-z]+|\S")

    def __init__(self, text: str) -> None:
        self.tokens = self.token.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def sum(self) -> Fraction:
        value = self.product()
        while self.peek() in ("+", "-"):
            value += self.product() if self.take() == "+" else -self.product()
        return value

    def product(self) -> Fraction:
        value = self.signed()
        while True:
            if self.peek() in ("*", r"\cdot", r"\times", "("):
                self.at += self.peek() != "("
                value *= self.signed()
            elif self.peek() in ("/", r"\div"):
                self.at += 1
                value /= self.signed()
            else:
                return value
            _fits(value)

    def signed(self) -> Fraction:
        sign = 1
        while self.peek() in ("-", "+"):
            sign = -sign if self.take() == "-" else sign
        return sign * self.power()

    def power(self) -> Fraction:
        base = self.atom()
        if self.peek() == "!":
            self.at += 1
            if base.denominator != 1 or not 0 <= base <= 1000:
                raise TooBig
            base = Fraction(factorial(int(base)))
        if self.peek() != "^":
            return base
        self.at += 1
        power = self.power() if self.peek() != "-" else self.signed()
        if power.denominator != 1:
            raise ValueError("a root")
        size = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(base) != 1 and base and size * abs(power) > MAX_BITS:
            raise TooBig
        return base ** int(power)

    def group(self) -> Fraction:
        if self.peek() not in ("{", "("):
            raise ValueError("no group")
        close = _CLOSE[self.take()]
        value = self.sum()
        if self.take() != close:
            raise ValueError("unbalanced")
        return value

    def atom(self) -> Fraction:
        token = self.peek()
        if token in ("{", "("):
            return self.group()
        self.at += 1
        if token == r"\frac":
            return self.group() / self.group()
        if token == r"\binom":
            top, bottom = self.group(), self.group()
            if top.denominator * bottom.denominator != 1 or not 0 <= bottom <= top <= 1000:
                raise ValueError("no plain binomial")
            return Fraction(comb(int(top), int(bottom)))
        if len(token) > 4000:
            raise TooBig
        value = Fraction(token)
        return value + self.atom() if self.peek() == r"\frac" and token.isdigit() else value


def _fits(value: Fraction) -> None:
    """Raise when a number has grown too big."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > 2 * MAX_BITS:
        raise TooBig


def exact(text: str) -> Fraction | None:
    """The rational value of a text, None when it is not plain arithmetic."""
    text = text.strip()
    if text.lower() in _WORDS:
        return Fraction(_WORDS[text.lower()])
    if THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    text = re.sub(r"(\d)[eE]([+-]?\d+)$", r"\1*10^{\2}", text)
    if text.endswith("%"):
        text = f"({text[:-1]})/100"
    reader = _Exact(text)
    try:
        value = reader.sum()
    except (ValueError, ZeroDivisionError):
        return None
    return value if reader.at >= len(reader.tokens) else None


def written_digits(text: str) -> int:
    """How many significant digits a written decimal has, 0 for anything else."""
    plain = text.replace(",", "").lstrip("-")
    return len(plain.replace(".", "").lstrip("0")) if re.fullmatch(r"\d*\.\d+", plain) else 0


def split(text: str, mark: str = ",") -> list[str]:
    """The parts of a text between marks outside all brackets."""
    parts, depth, start, at = [], 0, 0, 0
    while at < len(text):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0 and text.startswith(mark, at):
            parts.append(text[start:at].strip())
            start = at = at + len(mark)
        else:
            at += 1
    return [*parts, text[start:].strip()]


def depth(text: str) -> int | None:
    """The deepest nesting of brackets, None when one closes before it opens."""
    level = deepest = 0
    for char in text:
        level += (char in "([{") - (char in ")]}")
        deepest = max(deepest, level)
        if level < 0:
            return None
    return deepest


def matrix(text: str) -> list[list[str]] | None:
    """The cells of a matrix, None for anything else."""
    match = re.fullmatch(r"\\begin\{([pbvBV]?matrix|array)\}(?:\{[clr|]*\})?(.*)\\end\{\1\}", text)
    if not match:
        return None
    rows = [row for row in match[2].split(r"\\") if row.strip()]
    return [[cell.strip() for cell in row.split("&")] for row in rows]
