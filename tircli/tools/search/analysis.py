"""Text to terms as Lucene's English analysis does it, so that rankings agree with pyserini's.

Words as in Unicode's UAX #29, lower case, no possessive, no stop words, Porter stems. Departures:
emoji are no words, and a mark between a letter and a joining point ends the word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

NAME = "english-porter-1"
"""Stored in an index: another analysis needs another index."""
STOP_WORDS = frozenset(
    word
    for line in (
        "a an and are as at be but by for if in into is it no not of on or such that the their",
        "then there these they this to was will with",
    )
    for word in line.split()
)
LONGEST = 255
"""Characters of a word; a longer one is cut into pieces."""
_ASCII = re.compile(
    r"[a-z0-9_]+"
    r"(?:(?:(?<=[a-z])['.:](?=[a-z])|(?<=[0-9])['.,;](?=[0-9]))[a-z0-9_]+)*"
)
_SINGLE = (
    "\u2e80-\u2fdf\u3005\u3007\u3021-\u3029\u3038-\u303b\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Han and hiragana: every character is a word."""
_KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
_FORMAT = "\u00ad\u200c-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff"
_MID_BOTH = "'.‘’․﹒＇．"
_MID_LETTER = ":··՟״‧︓﹕："
_MID_DIGIT = ",;;։،؍٬߸⁄︐︔﹐﹔，；"
_MEASURED = re.compile(r"(?:[aeiou]|(?<=[^aeiou])y)(?:[^aeiouy]|(?<=[aeiou])y)")
"""Porter's m > 0: a vowel before a consonant."""


@cache
def _unicode() -> re.Pattern[str]:
    """The pattern for text beyond ASCII, made at the first such text."""
    kinds: dict[str, list[str]] = {}
    for char in map(chr, range(0x80, 0x10000)):
        kinds.setdefault(unicodedata.category(char), []).append(re.escape(char))
    marks = "".join(kinds["Mn"] + kinds["Mc"] + kinds["Me"]) + _FORMAT
    signs = "".join(kinds["No"])
    part = rf"(?:[^\W{_SINGLE}{_KATAKANA}{signs}][{marks}]*)+"
    letter, digit, hebrew = r"[^\W\d_]", r"\d", "[\u05d0-\u05ea]"
    joined = (
        rf"(?:(?<={letter})[{_MID_BOTH}{_MID_LETTER}](?={letter})"
        rf"|(?<={digit})[{_MID_BOTH}{_MID_DIGIT}](?={digit})"
        rf'|(?<={hebrew})"(?={hebrew}))'
    )
    return re.compile(
        rf"[{_SINGLE}][{marks}]*|(?:[{_KATAKANA}][{marks}]*)+|{part}(?:{joined}{part})*"
    )


def words(text: str) -> list[str]:
    """The words of `text` in lower case, before possessives, stop words and stems."""
    if text.isascii():
        found = _ASCII.findall(text.lower())
    else:
        # Two letters whose lower case depends on their place in Python, not in Lucene.
        found = _unicode().findall(text.replace("İ", "i").replace("Σ", "σ").lower())
    if found and max(map(len, found)) > LONGEST:
        return [word[i : i + LONGEST] for word in found for i in range(0, len(word), LONGEST)]
    return found


@cache
def _stemmer() -> Callable[[str], str]:
    import Stemmer

    stem: Callable[[str], str] = Stemmer.Stemmer("porter", 0).stemWord
    return stem


def stem(word: str) -> str:
    """The stem of `word`: Porter's, with the two endings that Lucene's version adds."""
    if len(word) < 3:
        return word
    found = _stemmer()(word)
    if found.endswith("logi") and _MEASURED.search(found[:-4]):
        return found[:-1]
    if found.endswith("bli") and _MEASURED.search(found[:-3]):
        return _stemmer()(found[:-1] + "e")
    return found


def term(word: str) -> str | None:
    """What one of `words` is indexed as; None if it carries nothing."""
    if len(word) > 1 and word[-1] == "s" and word[-2] in "'’＇":
        word = word[:-2]
    return None if word in STOP_WORDS or not word.strip("_") else stem(word)


def terms(text: str) -> list[str]:
    """The terms of `text`, in order, repeats kept."""
    return [found for found in map(term, words(text)) if found is not None]
