"""Exact match and token F1 for question answering, after SQuAD.

- On ASCII text `normalise` is SQuAD's. Beyond it, equal characters are brought to one form (NFKC)
  and the punctuation of every script goes, as ASCII's does: O’Neill is O'Neill.
- If nothing of the gold is left (`The`, `!!!`), both texts are compared as they are written.
- Yes, no and noanswer match only exactly.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterable

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED = {"yes", "no", "noanswer"}


def normalise(text: str) -> str:
    """The text in lower case, without punctuation, articles and extra white space."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = "".join(char for char in text if unicodedata.category(char)[0] != "P")
    text = text.lower().translate(_PUNCTUATION)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())


def _pair(gold: str, prediction: str) -> tuple[str, str]:
    """Both texts normalised, or only trimmed when nothing of the gold would be left."""
    left = normalise(gold)
    if left:
        return left, normalise(prediction)
    return gold.strip().lower(), prediction.strip().lower()


def _f1(gold: str, prediction: str) -> float:
    """Token F1 of one gold; closed answers (yes, no, noanswer) count only when exact."""
    left, right = _pair(gold, prediction)
    if not left or not right:
        return 0.0
    if left == right:
        return 1.0
    if left in _CLOSED or right in _CLOSED:
        return 0.0
    a, b = left.split(), right.split()
    shared = sum((Counter(a) & Counter(b)).values())
    return 2 * shared / (len(a) + len(b))


def _golds(golds: str | Iterable[str]) -> list[str]:
    """The golds as a list; a lone string is one gold."""
    return [golds] if isinstance(golds, str) else list(golds)


def em(golds: str | Iterable[str], prediction: str | None) -> float:
    """1.0 when the prediction is one of the golds after normalising, otherwise 0.0."""
    if not prediction or not prediction.strip():
        return 0.0
    pairs = (_pair(gold, prediction) for gold in _golds(golds))
    return float(any(left and left == right for left, right in pairs))


def f1(golds: str | Iterable[str], prediction: str | None) -> float:
    """The greatest token F1 of the prediction over the golds; 0.0 when it is empty."""
    if not prediction or not prediction.strip():
        return 0.0
    return max((_f1(gold, prediction) for gold in _golds(golds)), default=0.0)
