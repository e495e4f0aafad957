"""Units of measure: what a unit is made of, its size, and the unit at the end of a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from tircli.answers.text import SCALES


@dataclass(frozen=True)
class Unit:
    """A unit as powers of dimensions and its size in their base units."""

    dimensions: tuple[tuple[str, int], ...]
    size: Fraction = Fraction(1)
    zero: Fraction = Fraction(0)
    """Where the scale begins, for temperatures: kelvin = size * value + zero."""
    radian: int = 0
    """1 for degrees: the size holds a factor pi / 180 beside `size`."""


_TABLE = {
    "length": "mm 1/1000 millimeter 1/1000 cm 1/100 centimeter 1/100 dm 1/10 m 1 meter 1 km 1000 "
    "kilometer 1000 inch 127/5000 in 127/5000 ft 381/1250 foot 381/1250 feet 381/1250 "
    "yard 1143/1250 yd 1143/1250 mile 201168/125 mi 201168/125 µm 1/1000000 nm 1/1000000000",
    "time": "ms 1/1000 millisecond 1/1000 s 1 sec 1 second 1 min 60 minute 60 h 3600 hr 3600 "
    "hour 3600 day 86400 week 604800",
    "year": "month 1 year 12 decade 120 century 1200",
    "mass": "mg 1/1000000 g 1/1000 gram 1/1000 kg 1 kilogram 1 tonne 1000 lb 45359237/100000000 "
    "pound 45359237/100000000 oz 45359237/1600000000 ounce 45359237/1600000000",
    "dollar": "dollar 1 cent 1/100 penny 1/100 pennies 1/100 nickel 1/20 dime 1/10 usd 1 buck 1",
    "euro": "euro 1 eur 1",
    "yen": "yen 1",
    "rupee": "rupee 1",
    "temperature": "k 1 kelvin 1",
    "newton": "n 1 newton 1",
    "joule": "j 1 joule 1 kj 1000",
    "watt": "w 1 watt 1 kw 1000",
    "byte": "byte 1 bit 1/8",
    "unit": "unit 1",
}
_LITRE = (("length", 3),)
_UNITS = {}
for _dimension, _text in _TABLE.items():
    _cells = _text.split()
    for _name, _size in zip(_cells[::2], _cells[1::2], strict=True):
        _UNITS[_name] = Unit(((_dimension, 1),), Fraction(_size))
for _name, _size in {"l": "1/1000", "liter": "1/1000", "ml": "1/1000000", "cl": "1/100000",
                     "milliliter": "1/1000000", "cc": "1/1000000"}.items():  # fmt: skip
    _UNITS[_name] = Unit(_LITRE, Fraction(_size))
_UNITS["hectare"] = Unit((("length", 2),), Fraction(10000))
_UNITS["acre"] = Unit((("length", 2),), Fraction(316160658, 78125))
_UNITS["mph"] = Unit((("length", 1), ("time", -1)), Fraction(201168, 125 * 3600))
_UNITS["kph"] = _UNITS["kmh"] = Unit((("length", 1), ("time", -1)), Fraction(5, 18))
_UNITS["pound sterling"] = Unit((("sterling", 1),))
_UNITS["°c"] = _UNITS["degree celsius"] = Unit(
    (("temperature", 1),), Fraction(1), Fraction(5463, 20)
)
_UNITS["°f"] = _UNITS["degree fahrenheit"] = Unit(
    (("temperature", 1),), Fraction(5, 9), Fraction(5463, 20) - Fraction(160, 9)
)
_ANGLE = (("angle", 1),)
_UNITS["rad"] = _UNITS["radian"] = Unit(_ANGLE)
_UNITS["°"] = _UNITS["degree"] = _UNITS["deg"] = Unit(_ANGLE, radian=1)
_UNITS["revolution"] = _UNITS["turn"] = Unit(_ANGLE, Fraction(360), radian=1)
_LETTERS = ("m", "s", "g", "h", "L")
_SPELLINGS = {"metre": "meter", "litre": "liter", "inches": "inch", "feet": "foot",
              "centuries": "century", "hours": "hour", "mins": "min", "secs": "sec",
              "hrs": "hr", "lbs": "lb", "celsius": "°c", "fahrenheit": "°f", "sq": "square",
              "cu": "cubic", "pence": "penny", "people": "person", "children": "child",
              "men": "man", "women": "woman"}  # fmt: skip
_POWERS = {"square": 2, "cubic": 3}


def _singular(word: str) -> str:
    """A unit's word in the singular and the spelling of the table."""
    for british, american in (("metre", "meter"), ("litre", "liter")):
        word = word.replace(british, american)
    if word in _UNITS and word not in ("feet", "pennies"):
        return word
    word = _SPELLINGS.get(word, word)
    if word in _UNITS or word in _POWERS or len(word) < 4 or word.endswith("ss"):
        return word
    if word.endswith(("ches", "shes", "xes", "sses", "oes")):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") else word


def unit(words: str) -> Unit | None:
    """The unit that words name (`miles per hour`, `cm^2`, `red balls`); None if they name none."""
    words = re.sub(
        r"\^\{?(-?\d+)\}?",
        r"^\1 ",
        words.lower().replace("›^", "^").replace("‹", " ").replace("›", " "),
    )
    words = re.sub(r"°\s*c\b", " celsius", re.sub(r"°\s*f\b", " fahrenheit", words))
    words = words.replace("°", " degree ")
    words = re.sub(r"degrees?\s+(celsius|fahrenheit)", r"\1", words)
    words = re.sub(r"\bpounds? sterling\b", "sterling", words)
    words = re.sub(r"\bper\b|/", " / ", words.replace(".", "")).replace("\\cdot", " ")
    total: dict[str, int] = {}
    size, zero, radian, sign, ahead, named = Fraction(1), Fraction(0), 0, 1, 1, 0
    other: list[str] = []
    for word in words.split():
        if word == "/":
            sign = -1
            continue
        name, _, power = word.partition("^")
        name = _singular(name)
        if name in _POWERS:
            ahead = _POWERS[name]
            continue
        if name == "squared" or name == "cubed":
            return None
        if not re.fullmatch(r"[^\W\d_][^\W\d_'-]*|°[cf]", name):
            return None
        if power and not re.fullmatch(r"-?\d+", power):
            return None
        found = _UNITS.get("pound sterling" if name == "sterling" else name)
        times = sign * ahead * (int(power) if power else 1)
        ahead, named = 1, named + 1
        if abs(times) > 12:
            return None
        if found is None:
            other.append(("/" if times < 0 else "") + name + (str(times) if abs(times) > 1 else ""))
            continue
        size *= found.size**times
        radian += found.radian * times
        zero = found.zero
        for dimension, exponent in found.dimensions:
            total[dimension] = total.get(dimension, 0) + exponent * times
    if not named:
        return None
    if other:
        total["‹" + " ".join(other)] = 1
    dimensions = tuple(sorted((name, power) for name, power in total.items() if power))
    return Unit(dimensions, size, zero if named == 1 else Fraction(0), radian)


_NUMBER = r"(?:[-+]?[\d.,]*\d[\d.,]*|.*[\d)}!]|.*\\pi)"
_MARKED = re.compile(
    r"^(.*?[^‹›\s])\s*((?:‹[^‹›]*›|°\s?[CFcf]?(?![A-Za-z]))[^‹›()\[\]]*(?:‹[^‹›]*›[^‹›()\[\]]*)*)$"
)
_LEADING = re.compile(r"^([-+]?)\s*(‹(?:dollar|euro|pound sterling|yen|rupee)›)\s*(.+)$")
_WORDS = re.compile(rf"^({_NUMBER})(\s+|°\s?)([A-Za-zµ][A-Za-zµ./^{{}}\d\s-]*)$")
_ATTACHED = re.compile(
    r"^([-+]?[\d.,]*\d)((?:[kcm]m|km/h|m/s|kg|mg|ml|mL|ft|hrs?|mins?|mph|sec|inches|cents|am|pm)(?:\^\{?\d\}?|/[a-z]+(?:\^\{?\d\}?)?)?)$"
)


def _scaled(value: str, words: str) -> tuple[str, str]:
    """Words of scale (`5 million`) moved into the value."""
    first, _, rest = words.replace("‹", " ").replace("›", " ").strip().partition(" ")
    if first.lower() in SCALES:
        return f"({value})*{SCALES[first.lower()]}", rest.strip()
    return value, words


def strip(text: str) -> tuple[str, Unit | None]:
    """A text without the unit at its end (money: at its beginning too), and the unit."""
    text = text.strip()
    leading = _LEADING.match(text)
    if leading:
        value, words = leading[1] + leading[3], leading[2]
        tail = re.match(r"^(.*\d)\s*(?:‹)?([A-Za-z]+)(?:›)?$", value)
        if tail and tail[2].lower() in SCALES:
            value = _scaled(tail[1], tail[2])[0]
        elif tail and unit(tail[2]) == unit(words):
            value = tail[1]
        return value, unit(words)
    for pattern in (_MARKED, _WORDS, _ATTACHED):
        match = pattern.match(text)
        if not match:
            continue
        value, words = match[1].strip(), match[match.lastindex or 2].strip()
        if pattern is _WORDS:
            words = match[2].strip() + words
            letters = re.findall("[A-Za-zµ]+", words)
            if len(letters) == 1 and len(letters[0]) < 3 and words.lower() not in _UNITS:
                continue
            if len(words) == 1 and not (words in _LETTERS and re.fullmatch(r"[-+]?[\d.,]+", value)):
                continue
        if not re.search(r"[\dπ]|\\pi|\\sqrt|^[-+]?\s*[a-z]$|[a-z]\^?", value):
            continue
        if words[0] == "°" and re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", value):
            continue
        value, words = _scaled(value, words)
        if not words:
            return value, None
        found = unit(words)
        if found is not None:
            return value, found
    return text, None
