r"""Reads LaTeX or plain arithmetic and algebra into nodes; nothing is evaluated or run.

A node is a tuple: `("n", Fraction)`, `("v", name)`, `("c", "pi" | "e" | "i" | "inf")`,
`("+", *nodes)`, `("*", *nodes)`, `("/", a, b)`, `("^", a, b)` or `("f", name, *arguments)`.
A power of ten written out in a number token (1.5e3) is part of that number.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

Node = tuple[Any, ...]

MAX_DIGITS = 4000
MAX_TOKENS = 3000
MAX_NEST = 40
MINUS_ONE: Node = ("n", Fraction(-1))
_TOKEN = re.compile(
    r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?"
    r"|\\[A-Za-z]+|\\.|\S",
    re.S,
)
_CLOSE = {"(": ")", "{": "}", "[": "]", r"\{": r"\}", "|": "|",
          r"\lfloor": r"\rfloor", r"\lceil": r"\rceil"}  # fmt: skip
_MANY = {"gcd", "lcm", "max", "min"}
FUNCTIONS = _MANY | set(
    (
        "sin cos tan cot sec csc sinh cosh tanh coth arcsin arccos arctan arccot ln log lg exp"
    ).split()
)
_ARCS = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot"}
_GREEK = set(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi "
    "Omega ell hbar".split()
)
_CONSTANTS = {r"\pi": "pi", r"\infty": "inf", "e": "e", "i": "i"}
_TIMES = {"*", r"\cdot", r"\times", r"\ast"}
_OVER = {"/", r"\div"}


class Unreadable(ValueError):
    """The text is no expression that this module knows."""


class TooBig(ValueError):
    """A number or a nesting that shall not be computed."""


def parse(text: str) -> Node:
    """The node of a whole text. Raises Unreadable or TooBig."""
    reader = _Reader(text)
    node = reader.sum()
    if reader.at < len(reader.tokens):
        raise Unreadable(f"unexpected {reader.peek()!r}")
    return node


def number(token: str) -> Fraction:
    """The value of a number token. Raises TooBig beyond MAX_DIGITS digits."""
    token = token.replace(",", "")
    mantissa, _, power = token.lower().partition("e")
    if len(mantissa) > MAX_DIGITS or len(power) > 5 or (power and abs(int(power)) > MAX_DIGITS):
        raise TooBig("a number of too many digits")
    return Fraction(token + "0" if token.endswith(".") else token)


class _Reader:
    """Recursive descent over the tokens; the nesting is bounded by MAX_NEST."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0
        self.nest = 0
        self.bars = 0
        if len(self.tokens) > MAX_TOKENS:
            raise TooBig("too long")

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise Unreadable("the text ends too early")
        self.at += 1
        return token

    def sum(self) -> Node:
        self.nest += 1
        if self.nest > MAX_NEST:
            raise TooBig("nested too deep")
        terms = [self.product()]
        while self.peek() in ("+", "-"):
            sign = self.take()
            term = self.product()
            terms.append(term if sign == "+" else negative(term))
        self.nest -= 1
        return terms[0] if len(terms) == 1 else ("+", *terms)

    def product(self) -> Node:
        value = self.signed()
        quotients = 0
        while True:
            if quotients > MAX_NEST:
                raise TooBig("nested too deep")
            if self.peek() in _TIMES:
                self.at += 1
                value = _times(value, self.signed())
            elif self.peek() in _OVER:
                self.at += 1
                quotients += 1
                value = ("/", value, self.signed())
            elif self.starts_atom():
                value = _times(value, self.postfix())
            else:
                return value

    def signed(self) -> Node:
        odd = False
        while self.peek() in ("-", "+"):
            odd ^= self.take() == "-"
        node = self.postfix()
        return negative(node) if odd else node

    def starts_atom(self) -> bool:
        """True if the next token begins a factor without a sign."""
        token = self.peek()
        if token == "|":
            return not self.bars
        if token in ("(", "{", "[", r"\{", r"\lfloor", r"\lceil"):
            return True
        return bool(re.match(r"[\dA-Za-z.]|\\[A-Za-z]", token)) and token not in (
            _TIMES | _OVER | {r"\rfloor", r"\rceil"}
        )

    def postfix(self) -> Node:
        node = self.atom()
        first = self.at
        while True:
            token = self.peek()
            if self.at - first > MAX_NEST:
                raise TooBig("nested too deep")
            if token == "!":
                self.at += 1
                node = ("f", "factorial", node)
            elif token == "%":
                self.at += 1
                node = ("/", node, ("n", Fraction(100)))
            elif token == "°":
                self.at += 1
                node = ("*", node, ("/", ("c", "pi"), ("n", Fraction(180))))
            elif token == "^":
                self.at += 1
                return ("^", node, self.exponent())
            else:
                return node

    def exponent(self) -> Node:
        self.nest += 1
        if self.nest > MAX_NEST:
            raise TooBig("nested too deep")
        negated = self.peek() == "-"
        self.at += negated
        node = self.postfix() if self.peek() not in ("{", "(") else self.group()
        if self.peek() == "^":
            self.at += 1
            node = ("^", node, self.exponent())
        self.nest -= 1
        return negative(node) if negated else node

    def group(self) -> Node:
        close = _CLOSE.get(self.take())
        if close is None:
            raise Unreadable("a group is missing")
        bars, self.bars = self.bars, int(close == "|")
        node = self.sum()
        self.bars = bars
        if self.take() != close:
            raise Unreadable("brackets do not match")
        return node

    def argument(self) -> Node:
        r"""The argument of a command: a group, or one digit or token (`\frac12`)."""
        token = self.peek()
        if token == "{":
            return self.group()
        if re.fullmatch(r"\d{2,}", token):
            self.tokens[self.at] = token[1:]
            return ("n", Fraction(token[0]))
        return self.atom()

    def atom(self) -> Node:
        token = self.peek()
        if token in ("|", r"\lfloor", r"\lceil"):
            name = {"|": "abs", r"\lfloor": "floor", r"\lceil": "ceil"}[token]
            return ("f", name, self.group())
        if token in ("(", "{", "[", r"\{"):
            return self.group()
        self.take()
        if token[0].isdigit() or (token[0] == "." and len(token) > 1):
            return self.mixed(token)
        if token in _CONSTANTS and self.peek() != "_":
            return ("c", _CONSTANTS[token])
        if re.fullmatch(r"[A-Za-z]", token) or (token[0] == "\\" and token[1:] in _GREEK):
            return ("v", token.lstrip("\\") + self.subscript())
        if token[0] == "\\":
            return self.command(token[1:])
        raise Unreadable(f"unexpected {token!r}")

    def subscript(self) -> str:
        if self.peek() != "_":
            return ""
        self.at += 1
        if self.peek() != "{":
            return "_" + self.take()
        self.at += 1
        start = self.at
        while self.peek() and self.peek() != "}":
            self.at += 1
        self.take()
        return "_" + "".join(self.tokens[start : self.at - 1])

    def mixed(self, token: str) -> Node:
        r"""A number, with a proper fraction of plain numbers right after it (`1\frac34`)."""
        value = ("n", number(token))
        following = self.tokens[self.at : self.at + 7]
        if token.isdigit() and following[:1] == [r"\frac"] and len(following) == 7:
            shape = [part for part in following if not part.isdigit()]
            top, bottom = following[2], following[5]
            small = top.isdigit() and bottom.isdigit() and max(len(top), len(bottom)) < 20
            if shape == [r"\frac", "{", "}", "{", "}"] and small and 0 < int(top) < int(bottom):
                self.at += 7
                return ("n", value[1] + Fraction(int(top), int(bottom)))
        return value

    def command(self, name: str) -> Node:
        if name == "frac":
            return ("/", self.argument(), self.argument())
        if name == "binom":
            return ("f", "binom", self.argument(), self.argument())
        if name == "sqrt":
            degree: Node = ("n", Fraction(2))
            if self.peek() == "[":
                degree = self.group()
            whole = self.peek().isdigit()
            return ("f", "root", self.atom() if whole else self.argument(), degree)
        if name in FUNCTIONS:
            return self.function(name)
        if name == "cis":
            return ("f", "cis", self.operand())
        raise Unreadable(f"unknown command {name}")

    def function(self, name: str) -> Node:
        if name in _MANY:
            return ("f", name, *self.several())
        power = base = None
        while self.peek() in ("^", "_"):
            mark = self.take()
            if mark == "_":
                base = self.argument()
            else:
                minus = self.peek() == "-"
                self.at += minus
                power = self.argument()
                power = negative(power) if minus else power
        if power == MINUS_ONE and name in _ARCS:
            name, power = _ARCS[name], None
        node: Node = ("f", name, self.operand())
        if name == "log" and base is not None:
            node = ("/", ("f", "ln", node[2]), ("f", "ln", base))
        elif name == "lg":
            node = ("/", ("f", "ln", node[2]), ("f", "ln", ("n", Fraction(10))))
        return node if power is None else ("^", node, power)

    def several(self) -> list[Node]:
        """The arguments in parentheses, between commas."""
        close = _CLOSE.get(self.take(), "")
        nodes = [self.sum()]
        while self.peek() == ",":
            self.at += 1
            nodes.append(self.sum())
        if self.take() != close:
            raise Unreadable("brackets do not match")
        return nodes

    def operand(self) -> Node:
        r"""What a function applies to: a bracket, or factors up to the next function."""
        if self.peek() in ("(", "{", "["):
            return self.group()
        minus = self.peek() == "-"
        self.at += minus
        if not self.starts_atom() and self.peek() != "|":
            raise Unreadable("a function without argument")
        if self.peek()[1:] in FUNCTIONS:
            return self.postfix()
        node = self.postfix()
        while self.starts_atom() and self.peek() != "(" and self.peek()[1:] not in FUNCTIONS:
            node = _times(node, self.postfix())
        return negative(node) if minus else node


def negative(node: Node) -> Node:
    """Minus the node."""
    return ("n", -node[1]) if node[0] == "n" else ("*", MINUS_ONE, node)


def minus(left: Node, right: Node) -> Node:
    """The difference of two nodes."""
    return ("+", left, negative(right))


def _times(left: Node, right: Node) -> Node:
    """The product, flat where the left side is a product already."""
    return (*left, right) if left[0] == "*" else ("*", left, right)


def variables(node: Node) -> set[str]:
    """The names of the variables."""
    if node[0] == "v":
        return {node[1]}
    if node[0] in ("n", "c"):
        return set()
    parts = node[2:] if node[0] == "f" else node[1:]
    return set().union(*map(variables, parts))


def contains(node: Node, wanted: Node) -> bool:
    """True if `wanted` heads a node within (`("c", "i")`, `("f", "log")`)."""
    if node[: len(wanted)] == wanted:
        return True
    parts = node[2:] if node[0] == "f" else node[1:] if node[0] not in ("n", "v", "c") else ()
    return any(contains(part, wanted) for part in parts)


def substitute(node: Node, name: str, value: Node) -> Node:
    """The node with a variable replaced."""
    if node == ("v", name):
        return value
    if node[0] in ("n", "v", "c"):
        return node
    start = 2 if node[0] == "f" else 1
    return (*node[:start], *(substitute(part, name, value) for part in node[start:]))
