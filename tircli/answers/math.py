"""Equality of two mathematical answers, with a reason."""

from __future__ import annotations

import re
import time
import unicodedata
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise

from tircli.answers import THOUSANDS, TooBig, Verdict, depth, exact, matrix, split, worker
from tircli.answers import written_digits as _digits

LIMIT = 3.5
MAX_LENGTH = 2000
MAX_DEPTH = 40
_VULGAR = {"½": "12", "⅓": "13", "⅔": "23", "¼": "14", "¾": "34", "⅕": "15", "⅛": "18", "⅜": "38"}
_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SIGNS = {"−": "-", "–": "-", "×": r"\times ", "·": r"\cdot ", "÷": r"\div ", "π": r"\pi ",
          "∞": r"\infty ", "∪": r"\cup ", "≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "±": r"\pm ",
          "°": r"^\circ ",
          "，": ",", "…": r"\ldots ", "√": r"\sqrt", "ℝ": r"\mathbb{R}"}  # fmt: skip
_UNITS = {}
for _kind, _table in {
    "length": "mm 1/1000 cm 1/100 dm 1/10 m 1 km 1000 meter 1 metre 1 centimeter 1/100 "
    "kilometer 1000",
    "inch": "in 1 inch 1 inche 1 ft 12 foot 12 feet 12 yard 36 yd 36 mile 63360",
    "time": "s 1 sec 1 second 1 min 60 minute 60 h 3600 hr 3600 hour 3600 day 86400 week 604800",
    "mass": "mg 1/1000 g 1 gram 1 kg 1000 kilogram 1000",
    "volume": "ml 1/1000 l 1 liter 1 litre 1",
    "money": "cent 1/100 dollar 1",
    "angle": "degree 1",
}.items():
    _cells = _table.split()
    for _name, _size in zip(_cells[::2], _cells[1::2], strict=True):
        _UNITS[_name] = (_kind, Fraction(_size))
_WRAPS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), (r"\boxed{", "}"))
_PLAIN_UNIT = r"^(-?[\d.,/]+|-?\d*\\frac\{\d+\}\{\d+\})\s+([A-Za-z]+(?:/[a-z]+)?)(\^\{?\d\}?)?$"
_NAME = r"[A-Za-z](?:\([a-z]\))?"
_RELATION = re.compile(r"\\leq?(?![a-z])|\\geq?(?![a-z])|<=|>=|<|>")


def _unwrap(text: str) -> str:
    """The text without dollars, boxes and phrases around it."""
    text = text.strip().rstrip(".").strip()
    phrase = r"(?:so |thus |hence )?(?:the |my )?(?:final )?(?:answer|option|choice)(?: is|:)+"
    text = re.sub(rf"^{phrase}\s*", "", text, flags=re.I)
    for left, right in (
        ("$$", "$$"),
        ("$", "$"),
        (r"\(", r"\)"),
        (r"\[", r"\]"),
        (r"\boxed{", "}"),
    ):
        if len(text) > len(left + right) and text.startswith(left) and text.endswith(right):
            inner = text[len(left) : -len(right)]
            if left != r"\boxed{" or depth(inner) is not None:
                text = inner.strip()
    return text


def clean(text: str) -> str:
    """The text with one way of writing each thing; unit words become `‹word›`."""
    for char, parts in _VULGAR.items():
        text = text.replace(char, rf"\frac{{{parts[0]}}}{{{parts[1]}}}")
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda m: f"^{{{m[0].translate(_SUPER)}}}", text)
    for old, new in _SIGNS.items():
        text = text.replace(old, new)
    text = _unwrap(unicodedata.normalize("NFKC", text))
    text = re.sub(r"\\[dtc]frac", r"\\frac", text)
    text = re.sub(r"(?<!\\)\\(left(?![a-z])|right(?![a-z])|displaystyle|[!,;:]|q?quad)", "", text)
    text = re.sub(r"\\(text(bf|it|rm)?|mathrm|mbox|operatorname)\s*\{([^{}]*)\}", _word, text)
    text = re.sub(r"\^\s*(\{\s*\\circ\s*\}|\\circ)|\\degree\b", "‹degree›", text)
    text = text.replace(r"\$", "").replace("$", "").replace(r"\%", "%").replace("~", " ")
    text = re.sub(r"(?<!\\)\\ ", " ", text).replace("{,}", ",").replace(r"\lbrace", r"\{")
    text = text.replace(r"\rbrace", r"\}").replace(r"\dots", r"\ldots").replace("tbinom", "binom")
    text = re.sub(r"(\d)\s+(\d+)/(\d+)$", r"\1\\frac{\2}{\3}", text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{", text)
    text = re.sub(r"(\\frac\{[^{}]*\})\s*(\d)", r"\1{\2}", text)
    text = re.sub(r"\\sqrt\s*(\w)", r"\\sqrt{\1}", text)
    text = re.sub(_PLAIN_UNIT, _plain_unit, text)
    text = re.sub(r"(?<![\d.,:])0+(?=\d)", "", text)
    text = re.sub(r"(?<=[\w})]) (or|and) (?=[\w\\({-])", ",", text.strip("*"))
    text = re.sub(r"\\varnothing|∅|\\\{\s*\\\}", r"\\emptyset", text)
    return re.sub(r"\s+", " ", text).strip()


def _plain_unit(match: re.Match[str]) -> str:
    """A number with its unit marked, or unchanged when the word may be variables."""
    word = match[2]
    if word == "percent":
        return match[1] + "%"
    known = word in _UNITS or word.rstrip("s") in _UNITS or len(word) > 3
    return f"{match[1]}‹{word.lower()}›{match[3] or ''}" if known else match[0]


def _word(match: re.Match[str]) -> str:
    """The words of a text command, as a connective or a marked word."""
    word = match[3].strip().rstrip(".")
    if word.lower() in ("or", "and", ","):
        return ","
    if re.fullmatch(r"\(?[A-Z]\)?", word) or not re.search("[A-Za-z]", word):
        return word
    return "%" if word.lower() == "percent" else f"‹{word.lower()}›"


def _unit(text: str) -> tuple[str, str]:
    """A text without its unit, and the unit in lower case."""
    match = re.fullmatch(r"(.*[\d}).%])\s*‹([^›]*)›(\^\{?\d\}?)?", text)
    if not match:
        return text, ""
    name = match[2]
    name = name if name in _UNITS else name.rstrip("s")
    return match[1], name + (match[3] or "").replace("{", "").replace("}", "")


def _scalar(gold: str, pred: str, end: float) -> Verdict:
    """The verdict on two single values, with or without units."""
    (a, unit_a), (b, unit_b) = _unit(gold), _unit(pred)
    try:
        x, y = exact(a), exact(b)
    except TooBig:
        return Verdict(False, "too big to compute")
    if unit_a and unit_b and unit_a != unit_b:
        (kind_a, size_a), (kind_b, size_b) = (
            _UNITS.get(u.split("^")[0], (u, 1)) for u in (unit_a, unit_b)
        )
        power_a, power_b = (int(u[-1]) if "^" in u else 1 for u in (unit_a, unit_b))
        if kind_a != kind_b or power_a != power_b or x is None or y is None:
            return Verdict(False, "units differ")
        return Verdict(x * size_a**power_a == y * size_b**power_a, "units converted")
    digits_a, digits_b = _digits(a), _digits(b)
    if x is not None and y is not None:
        other = x if digits_b >= 3 else y
        near = max(digits_a, digits_b) >= 3 and bool(digits_a) != bool(digits_b)
        if near and x != y and other.denominator != 1:
            return Verdict(abs(x - y) * 10000 <= max(abs(x), abs(y)), "decimal within 1e-4")
        return Verdict(x == y, "exact number")
    if "‹" in a + b:
        return Verdict(False, "different words")
    if digits_a >= 3 or digits_b >= 3:
        a, b = (b, a) if digits_a >= 3 else (a, b)
        return Verdict(bool(worker.ask("near", a, b, end)), "decimal against symbolic")
    if not re.search(r"\\|[-+*/^(]|\d", a + b):
        return Verdict(False, "different text")
    return Verdict(bool(worker.ask("same", a, b, end)), "symbolic")


def _bracket(text: str) -> tuple[str, list[str]] | None:
    """The kind of a list, set, tuple or interval and its parts."""
    if text.startswith(r"\{") and text.endswith(r"\}"):
        return "set", list(dict.fromkeys(split(text[2:-2])))
    if (
        text.startswith("{")
        and text.endswith("}")
        and "," in text
        and depth(text[1:-1]) is not None
    ):
        return "set", list(dict.fromkeys(split(text[1:-1])))
    if len(text) > 1 and text[0] in "([" and text[-1] in ")]" and depth(text[1:-1]) is not None:
        parts = split(text[1:-1])
        return (text[0] + text[-1], parts) if len(parts) > 1 else None
    parts = split(text)
    return ("list", parts) if len(parts) > 1 and not THOUSANDS.fullmatch(_unit(text)[0]) else None


def _interval(text: str) -> str:
    """An inequality in one variable, or the reals without points, as intervals."""
    match = re.fullmatch(r"\\mathbb\s*\{?R\}?\s*\\(?:setminus|backslash)\s*\\\{(.*)\\\}", text)
    if match:
        points = sorted(split(match[1]), key=lambda point: exact(point) or Fraction(0))
        ends = [r"-\infty", *points, r"\infty"]
        return r"\cup".join(f"({a},{b})" for a, b in pairwise(ends))
    if re.fullmatch(r"\\mathbb\s*\{?R\}?", text):
        return r"(-\infty,\infty)"
    text = re.sub(r"^[a-z]\s*\\in(?![a-z])\s*", "", text)
    sides = [side.strip() for side in _RELATION.split(text)]
    signs = [("<" if "l" in s or "<" in s else ">") + "=" * ("e" in s or "=" in s)
             for s in _RELATION.findall(text)]  # fmt: skip
    if len(signs) == 2 and signs[0][0] == signs[1][0] and re.fullmatch("[a-z]", sides[1]):
        if signs[0][0] == ">":
            sides, signs = sides[::-1], signs[::-1]
        left, right = ("[" if "=" in signs[0] else "("), ("]" if "=" in signs[1] else ")")
        return f"{left}{sides[0]},{sides[2]}{right}"
    if len(signs) != 1:
        return text
    sign = signs[0]
    if re.fullmatch("[a-z]", sides[1]):
        sides, sign = sides[::-1], sign.translate(str.maketrans("<>", "><"))
    if not re.fullmatch("[a-z]", sides[0]):
        return text
    if sign[0] == ">":
        return ("[" if "=" in sign else "(") + sides[1] + r",\infty)"
    return r"(-\infty," + sides[1] + ("]" if "=" in sign else ")")


def _elements(gold: list[str], pred: list[str], ordered: bool, end: float) -> Verdict:
    """The verdict on two lists of parts, in order or in any order."""
    if len(gold) != len(pred):
        return Verdict(False, "different number of elements")
    if ordered or len(gold) > 50 or any("ldots" in part for part in gold + pred):
        same = all(_compare(a, b, end).equal for a, b in zip(gold, pred, strict=True))
        return Verdict(same, "elementwise")
    rest = list(pred)
    for part in gold:
        found = next((b for b in rest if b == part), None)
        if found is None:
            found = next((b for b in rest if _compare(part, b, end).equal), None)
        if found is None:
            return Verdict(False, "an element is missing")
        rest.remove(found)
    return Verdict(True, "same elements")


def _equation(gold: str, pred: str, end: float) -> Verdict | None:
    """The verdict when a side is an equation, None when neither is."""
    a, b = split(gold, "="), split(pred, "=")
    if len(a) == len(b) == 1:
        return None
    if len(a) == len(b) == 2:
        if a[0] == b[0]:
            same = _compare(a[1], b[1], end)
            if same.equal or re.fullmatch(_NAME, a[0]):
                return same
        zero_a, zero_b = (f"({side[0]})-({side[1]})" for side in (a, b))
        return Verdict(bool(worker.ask("scaled", zero_a, zero_b, end)), "equations")
    if len(a) <= 2 and len(b) <= 2:
        named, other = (a, pred) if len(a) == 2 else (b, gold)
        if re.fullmatch(_NAME, named[0]):
            named_first = len(a) == 2
            return _compare(*((named[1], other) if named_first else (other, named[1])), end)
    return Verdict(False, "equation against something else")


def _choice(gold: str, pred: str) -> Verdict | None:
    """The verdict when the gold is a letter of a multiple choice, otherwise None."""
    match = re.fullmatch(r"\(?([A-J])\)?", gold)
    if not match:
        return None
    found = re.fullmatch(r"\(?([A-J])(?:[).:]\s*(.*)|\)?)", pred)
    hedged = found and re.search(r"(?:^|\W)\(?[A-J][).:]|\bor\b", found[2] or "")
    if not found or hedged:
        return Verdict(False, "not one choice")
    return Verdict(found[1] == match[1], "choice letter")


def _notation(gold: str, pred: str) -> Verdict | None:
    """The verdict on numbers in a base, times and ratios, otherwise None."""
    bases = [re.findall(r"^([0-9A-Z]+)_\{?(\d{1,2})\}?$", side) for side in (gold, pred)]
    if all(bases):
        return Verdict(bases[0] == bases[1], "digits and base")
    if any(bases):
        return Verdict(False, "base on one side only")
    if ":" not in gold + pred:
        return None
    a, b = split(gold, ":"), split(pred, ":")
    if all(re.match(r"\d{1,2}:\d\d(?!\d)", side) for side in (gold, pred)) or len(a) != len(b):
        return Verdict(False, "different times or ratios")
    try:
        x, y = [exact(part) for part in a], [exact(part) for part in b]
    except TooBig:
        return Verdict(False, "too big to compute")
    known = [value for value in x + y if value is not None]
    if len(known) < len(x + y):
        return None
    one, other = known[: len(x)], known[len(x) :]
    pairs = zip(one, other, strict=True)
    same = 0 not in known and all(p * other[0] == q * one[0] for p, q in pairs)
    return Verdict(same, "ratio")


def _signs(text: str) -> str:
    """A text with one plus-minus as the list of both values."""
    if text.count(r"\pm") != 1:
        return text
    return text.replace(r"\pm", "+").lstrip("+ ") + "," + text.replace(r"\pm", "-")


def _listed(gold: str, pred: str, end: float) -> Verdict | None:
    """The verdict when a side is a matrix, union, set, tuple, interval or list."""
    rows = matrix(gold), matrix(pred)
    if any(rows):
        one, other = rows[0] or [], rows[1] or []
        if [len(row) for row in one] != [len(row) for row in other]:
            return Verdict(False, "matrix shapes differ")
        cells = [[cell for row in side for cell in row] for side in (one, other)]
        return _elements(cells[0], cells[1], True, end)
    unions = split(gold, r"\cup"), split(pred, r"\cup")
    if max(map(len, unions)) > 1:
        return _elements(*unions, False, end)
    a, b = _bracket(gold), _bracket(pred)
    if a and b:
        if a[0] != b[0] and {a[0], b[0]} != {"set", "list"}:
            return Verdict(False, "different brackets")
        return _elements(a[1], b[1], a[0] not in ("set", "list"), end)
    single = a or b
    if single is None:
        return None
    kind, parts = single
    if kind == "set" and len(parts) == 1 and parts[0]:
        return _compare(parts[0], pred, end) if a else _compare(gold, parts[0], end)
    return Verdict(False, "one value against several")


def _plain(text: str) -> str:
    """A text of words in lower case, empty for anything else."""
    words = text.replace("‹", "").replace("›", "").casefold()
    marked = "‹" in text or words in ("yes", "no") or len(words) > 3
    return words if marked and re.fullmatch(r"[^\W\d_][^\\^=+*/()]*", words) else ""


def _compare(gold: str, pred: str, end: float) -> Verdict:
    """The verdict on two cleaned texts, before the deadline."""
    if not gold or not pred:
        return Verdict(False, "empty")
    if gold.replace(" ", "") == pred.replace(" ", ""):
        return Verdict(True, "same text")
    if min(len(gold), len(pred)) > 1 and _plain(gold) and _plain(gold) == _plain(pred):
        return Verdict(True, "same words")
    if time.monotonic() > end:
        return Verdict(False, "out of time")
    found = _choice(gold, pred) or _notation(gold, pred)
    if found:
        return found
    left, right = _interval(_signs(gold)), _interval(_signs(pred))
    if (left, right) != (gold, pred) and left == right:
        return Verdict(True, "same interval")
    listed = [re.fullmatch(rf"({_NAME})\s*=\s*([^=]*,[^=]*)", side) for side in (left, right)]
    if any(listed):
        if len({m[1] for m in listed if m}) > 1:
            return Verdict(False, "different names")
        left, right = (m[2] if m else side for m, side in zip(listed, (left, right), strict=True))
    found = _listed(left, right, end) or _equation(left, right, end)
    return found or _scalar(left, right, end)


@lru_cache(maxsize=4096)
def equal(gold: str, prediction: str | None) -> Verdict:
    """Whether a prediction is the same answer as the gold, and why."""
    if prediction is None or not prediction.strip() or not gold.strip():
        return Verdict(False, "empty")
    if max(len(gold), len(prediction)) > 100_000:
        return Verdict(False, "too long")
    a, b = clean(gold), clean(prediction)
    if a and a == b:
        return Verdict(True, "same text")
    if max(len(a), len(b)) > MAX_LENGTH:
        return Verdict(False, "too long")
    if any((depth(side) or 0) > MAX_DEPTH for side in (a, b)):
        return Verdict(False, "nested too deep")
    return _compare(a, b, time.monotonic() + LIMIT)
