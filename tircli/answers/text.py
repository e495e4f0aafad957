r"""One way of writing each thing: the texts of answers before they are read.

`clean` gives LaTeX without decoration; the words of `\text{...}` stand between ‹ and ›, and so do
signs of money; a degree sign is °. The caller bounds the length.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_SUPER = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_SUB = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋₍₎", "0123456789+-()")
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩϕϵ",
        "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
        "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega phi "
        "epsilon".split(),
        strict=True,
    )
)
_SIGNS = {
    **dict.fromkeys("−–—‒‐‑﹣－", "-"),
    **dict.fromkeys("×✕✖", r"\times "),
    **dict.fromkeys("·⋅∙", r"\cdot "),
    **dict.fromkeys("“”″", '"'),
    **dict.fromkeys("’‘′", "'"),
    **dict.fromkeys("∕⁄", "/"),
    **{char: rf"\{name} " for char, name in _GREEK.items()},
    **{char: rf"\mathbb{{{name}}}" for char, name in zip("ℝℤℚℕℂ", "RZQNC", strict=True)},
    "÷": r"\div ", "∞": r"\infty ", "∪": r"\cup ", "∩": r"\cap ", "≤": r"\le ", "≥": r"\ge ",
    "⩽": r"\le ", "⩾": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "±": r"\pm ", "∓": r"\mp ",
    "°": "°", "º": "°", "˚": "°", "，": ",", "、": ",", "…": r"\ldots ", "∈": r"\in ",
    "∅": r"\emptyset ", "⟨": "(", "⟩": ")", "∖": r"\setminus ", "℃": "°C",
    "℉": "°F", "％": "%", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    "€": "‹euro›", "£": "‹pound sterling›", "¥": "‹yen›", "￥": "‹yen›", "₹": "‹rupee›",
    "¢": "‹cent›", "‰": "/1000", "‹": "<", "›": ">", "∫": r"\int ", "∑": r"\sum ",
}  # fmt: skip
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_RENAMES = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "tbinom": "binom", "dbinom": "binom",
    "leq": "le", "geq": "ge", "leqslant": "le", "geqslant": "ge", "lt": "<", "gt": ">",
    "neq": "ne", "dots": "ldots", "cdots": "ldots", "dotsc": "ldots", "varnothing": "emptyset",
    "lvert": "|", "rvert": "|", "vert": "|", "lbrace": r"\{", "rbrace": r"\}", "lbrack": "[",
    "rbrack": "]", "lparen": "(", "rparen": ")", "colon": ":", "degree": "°", "dotplus": "+",
    "tg": "tan", "ctg": "cot", "arctg": "arctan", "asin": "arcsin", "acos": "arccos",
    "atan": "arctan", "infin": "infty", "bigcup": "cup", "backslash": "setminus", "land": "‹and›",
    "wedge": "‹and›", "lor": "‹or›", "vee": "‹or›", "R": r"\mathbb{R}", "Z": r"\mathbb{Z}",
    "imath": "i", "jmath": "j", "mathrm": "text", "mbox": "text", "textbf": "text",
    "textit": "text", "textrm": "text", "textsf": "text", "operatorname": "text",
    "quad": " ", "qquad": " ", "displaystyle": " ", "textstyle": " ", "limits": "",
    "left": "", "right": "", "big": "", "Big": "", "bigl": "", "bigr": "", "Bigl": "",
    "Bigr": "", "bigg": "", "Bigg": "", "euro": "‹euro›", "pounds": "‹pound sterling›",
    "langle": "(", "rangle": ")",
    "simeq": "approx", "minus": "-", "prime": "'", "lbrac": "[", "percent": "%",
}  # fmt: skip
_DECORATED = re.compile(
    r"\\(?:mathbf|boldsymbol|vec|overrightarrow|mathit|bm|mathsf|mathcal|underline|textcolor|fbox)"
    r"\s*(\{[^{}]*\}|\\?[A-Za-z])"
)
_NAMED = (
    "sqrt sin cos tan cot sec csc arcsin arccos arctan log ln lg exp pi infinity theta alpha beta "
    "gcd lcm binom sinh cosh tanh"
).split()
_PLAIN = re.compile(rf"(?<![A-Za-z\\‹])({'|'.join(_NAMED)})(?![A-Za-z])")
_PHRASE = re.compile(
    r"^(?:so|thus|hence|therefore)?,?\s*(?:the |my |our )?(?:final |correct )*"
    r"(?:answer|result|option|choice)(?: choice)?\s*(?:is|:|=)*:?\s*(?=[^a-z\s]|[a-z]|\s)",
    re.I,
)
_OVERLINED = re.compile(r"(?<![\d.])(\d{0,9})\.(\d{0,12})\\overline\s*\{(\d{1,12})\}")
_CYCLE = re.compile(r"^([-+]?)(\d{1,9})\.(\d{0,12})\((\d{1,12})\)$")
_DOTTED = re.compile(r"(?<![\d.])(\d{0,9})\.(\d{0,12}?)((\d)\4\4)(?:\.\.\.|\\ldots)$")
_WRAPS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"),
          ('"', '"'))  # fmt: skip
OPEN, CLOSE = "([{", ")]}"


def depth(text: str) -> int | None:
    """The deepest nesting of brackets, None when they do not balance."""
    level = deepest = 0
    for char in text:
        level += (char in OPEN) - (char in CLOSE)
        deepest = max(deepest, level)
        if level < 0:
            return None
    return None if level else deepest


@lru_cache(maxsize=64)
def _scanner(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"\\(?:begin|end)(?=\{{)|[(\[{{)\]}}]|(?P<mark>{pattern})")


def outside(text: str, pattern: str) -> list[tuple[int, int]]:
    """Where a pattern matches outside all brackets and environments."""
    found, level = [], 0
    for match in _scanner(pattern).finditer(text):
        if match["mark"] is None:
            level += 1 if match[0] in (r"\begin", *OPEN) else -1
        elif level == 0:
            found.append(match.span())
    return found


def split(text: str, *marks: str) -> list[str]:
    """The parts of a text between marks outside all brackets, environments and thousands."""
    parts, start = [], 0
    for begin, end in outside(text, "|".join(map(re.escape, marks))):
        if text[begin:end] == "," and _thousand(text, begin):
            continue
        parts.append(text[start:begin].strip())
        start = end
    return [*parts, text[start:].strip()]


def _thousand(text: str, at: int) -> bool:
    """True if the comma at `at` stands between the groups of three digits of one number."""
    if not re.compile(r",\d{3}(?!\d)").match(text, at):
        return False
    before = re.search(r"(?<![\d.])(\d{1,3}(?:,\d{3})*)$", text[max(0, at - 40) : at])
    return before is not None and not before[1].startswith("0")


def unwrap(text: str) -> str:
    """The text without dollars, boxes, emphasis and phrases around it."""
    for _ in range(8):
        before = text
        text = text.strip()
        if text.endswith(".") and not text.endswith(("..", "a.m.", "p.m.")):
            text = text[:-1].rstrip()
        rest = _PHRASE.sub("", text)
        text = rest if rest else text
        for left, right in _WRAPS:
            if len(text) > len(left + right) and text.startswith(left) and text.endswith(right):
                inner = text[len(left) : -len(right)]
                if left not in inner and right not in inner and not inner.endswith("\\"):
                    text = inner
        box = re.match(r"\\(?:boxed|fbox|text|mathrm|textbf|mathbf|displaystyle)\s*\{", text)
        if box and text.endswith("}") and depth(text[box.end() : -1]) is not None:
            inner = text[box.end() : -1]
            text = inner if "boxed" in box[0] or "fbox" in box[0] else text
        if text == before:
            break
    return text


def _digits(char: str) -> str:
    """A decimal digit of any script as an ASCII digit."""
    return str(unicodedata.decimal(char))


def _plain_characters(text: str) -> str:
    """The text in ASCII where a character has a usual way of writing in LaTeX."""
    if text.isascii():
        return text
    out = []
    for char in text:
        form = unicodedata.decomposition(char)
        if form.startswith("<fraction>"):
            top, _, bottom = unicodedata.normalize("NFKC", char).partition("⁄")
            out.append(rf"\frac{{{top}}}{{{bottom}}}" if bottom else char)
        elif unicodedata.category(char) == "Nd":
            out.append(_digits(char))
        elif unicodedata.category(char) != "Cf":
            out.append(char)
    text = "".join(out)
    text = re.sub(r"[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+", lambda m: f"^{{{m[0].translate(_SUPER)}}}", text)
    text = re.sub(r"[₀₁₂₃₄₅₆₇₈₉₊₋₍₎]+", lambda m: f"_{{{m[0].translate(_SUB)}}}", text)
    text = _SIGN.sub(lambda m: _SIGNS[m[0]], text)
    for root, degree in (("√", ""), ("∛", "[3]"), ("∜", "[4]")):
        text = re.sub(rf"{root}\s*(\d+(?:\.\d+)?|[a-z])", rf"\\sqrt{degree}{{\1}}", text)
        text = text.replace(root, rf"\sqrt{degree}")
    return unicodedata.normalize("NFKC", text)


def _word(match: re.Match[str]) -> str:
    """The words of a text command: a connective, a symbol, or marked words."""
    word = " ".join(match[1].strip().split())
    lower = word.lower().strip(",.")
    if lower in ("or", "and"):
        return f"‹{lower}›"
    if lower in (*_NAMED, "cis") and lower not in ("pi", "infinity"):
        return rf"\{lower} "
    if lower == "percent":
        return "%"
    if not lower:
        return word
    if re.fullmatch(r"\([A-Z]\)", word) or not re.search("[A-Za-z]", word):
        return word
    return f"‹{word}›" if "‹" not in word else word


def _repeating(parts: tuple[str, str, str]) -> str:
    """A repeating decimal (before the point, before the cycle, the cycle) as a fraction."""
    whole, fixed, cycle = parts
    bottom = (10 ** len(cycle) - 1) * 10 ** len(fixed)
    top = int(whole + fixed + cycle) - int(whole + fixed or "0")
    return rf"\frac{{{top}}}{{{bottom}}}"


def clean(text: str) -> str:
    """The text with one way of writing each thing."""
    text = unwrap(_plain_characters(text).replace("\r", " ").replace("\n", " "))
    text = unwrap(re.sub(r",\s*\\!\s*", "{,}", text))
    text = re.sub(r"(?<=\d)\\,(?=\d{3}(?!\d))", "", text)
    text = re.sub(r"\{,\}\s*", ",", text)
    text = re.sub(r"(?<!\\)\\!", "", re.sub(r"(?<!\\)\\[,;: ](?![A-Za-z]*\})|~", " ", text))
    text = re.sub(r"\\\$|(?<![\\\d}])\$(?=\s?[\d.])", "‹dollar›", text).replace("$", "")
    text = re.sub(r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![a-z]))", "°", text)
    text = re.sub(r"\\([A-Za-z]+)", _rename, text).replace(r"\%", "%")
    text = re.sub(r"\\text\s*\{([^{}]*)\}", _word, text)
    text = _DECORATED.sub(r"\1", text).replace("\\\\ ", "\\\\")
    text = re.sub(r"\{([^{}]*)\\(?:choose)\s*([^{}]*)\}", r"\\binom{\1}{\2}", text)
    text = re.sub(r"\{([^{}]*)\\over(?![a-z])\s*([^{}]*)\}", r"\\frac{\1}{\2}", text)
    text = _OVERLINED.sub(lambda m: _repeating((m[1], m[2], m[3])), text)
    text = _CYCLE.sub(lambda m: m[1] + _repeating((m[2], m[3], m[4])), text)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", text)
    text = _DOTTED.sub(lambda m: _repeating((m[1], m[2], m[4])), text)
    text = re.sub(r"(\d)\s+(\d{1,9})\s*/\s*(\d{1,9})(?![\d.])", r"\1\\frac{\2}{\3}", text)
    text = text.replace("<=", r"\le ").replace(">=", r"\ge ").replace("!=", r"\ne ")
    text = re.sub(r"\.\.\.+", r"\\ldots ", text).replace("**", "^")
    text = _PLAIN.sub(lambda m: rf"\{'infty' if m[1] == 'infinity' else m[1]} ", text)
    text = re.sub(r"\\\{\s*\\\}", r"\\emptyset", text)
    return re.sub(r"\s+", " ", text).strip()


def _rename(match: re.Match[str]) -> str:
    """A command under its usual name."""
    new = _RENAMES.get(match[1])
    if new is None:
        return match[0]
    return rf"\{new}" if re.fullmatch("[A-Za-z]{2,}", new) else new


def tight(text: str) -> str:
    """The text without the spaces that mean nothing: all but those between letters or digits.

    One before three digits stays too: `1, 005` is no number.
    """
    return re.sub(r"(?<![A-Za-z0-9,])\s+|\s+(?![A-Za-z0-9])|(?<=,)\s+(?!\d{3}(?!\d))", "", text)


_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_NUMBERS = {word: n for n, word in enumerate(_ONES)}
_NUMBERS |= {word: 10 * n for n, word in enumerate(_TENS, 2)}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12,
          "dozen": 12}  # fmt: skip


_PARTS = {"half": 2, "halves": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5, "sixth": 6,
          "eighth": 8, "tenth": 10}  # fmt: skip


def spelled(text: str) -> str | None:
    """The number or simple fraction that English words name (`two thirds`), in digits."""
    whole = number_word(text)
    if whole is not None:
        return str(whole)
    head, _, last = text.lower().replace("-", " ").strip().rpartition(" ")
    bottom = _PARTS.get(last) or _PARTS.get(last.removesuffix("s"))
    top = 1 if head == "a" else number_word(head)
    return rf"\frac{{{top}}}{{{bottom}}}" if bottom and top is not None else None


def number_word(text: str) -> int | None:
    """The number that English words name ("two hundred and five"), None for other text."""
    words = text.lower().replace("-", " ").split()
    minus = words[:1] in (["minus"], ["negative"])
    words = words[1:] if minus else words
    if not words or len(words) > 20 or words[0] in ("and", "hundred", *SCALES):
        return None
    total = part = 0
    last = 1000
    for word in words:
        if word in _NUMBERS:
            value = _NUMBERS[word]
            # "twenty one" goes down by place; "one twenty" or "one two" is no number.
            if (value >= last if value < 10 else last < 100) or (last < 20):
                return None
            part += value
            last = value if value >= 20 else 1 if value else 0
        elif word == "hundred" and 0 < part < 100:
            part, last = part * 100, 100
        elif word in SCALES and part:
            total, part, last = total + part * SCALES[word], 0, 1000
        elif word != "and":
            return None
    return -(total + part) if minus else total + part
