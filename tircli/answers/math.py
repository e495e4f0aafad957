r"""Equality of two mathematical answers, with a reason (SPEC 2.1).

Decisions where answers are doubtful:
- A written decimal of three or more significant digits equals an exact value that is no integer
  within 1e-4 of it (0.3333 and 1/3; 3.1416 and \pi). Of two written decimals neither is exact: they
  are equal if they are the same number, or if one is the other rounded to fewer places, three
  digits or more and within 1e-4 (3.1416 and 3.14159; never 12.345 and 12.346).
- Percent is read as a hundredth (50% = 0.5); 50% never equals 50. `Rules(percent="sign")` wants
  the sign on both sides or on none.
- A missing unit is allowed, a wrong one is not, known ones are converted.
  `Rules(units="required")` wants a unit on both sides or on none.
- A bare \log is natural or of base ten, the same on both sides (`\log 2 = \ln 2`, `\log 100 = 2`):
  contests write both, and only the question could tell.
- An equation equals its multiples; `x = 5` equals `5`, not `y = 5`. A number in base b equals only
  the same digits in base b. 12:05 is a time and 12:5 a ratio. Between (1, 2) and 1, 2 the brackets
  count; a set and a bare list differ in nothing.
- A hedge (`5 or 6` for 5, `A or B` for A) is wrong, and so is whatever takes too long or too much
  memory to decide.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tircli.answers import Rules, Verdict, worker
from tircli.answers.compare import compare
from tircli.answers.expression import TooBig, variables
from tircli.answers.number import OutOfTime, deadline
from tircli.answers.read import read
from tircli.answers.text import clean, tight
from tircli.answers.values import Formula, Named, Quantity, Relation, Value

DEFAULT = Rules()
SECONDS = 2.0
MAX_LENGTH = 4000


def _symbolic(one: Value, other: Value) -> bool:
    """True if only the symbolic worker can decide: formulas, and inequalities without solution."""
    if isinstance(one, Formula):
        return isinstance(other, Formula | Quantity | Named)
    if not isinstance(one, Relation) or one.sign == "=" or len(variables(one.left)) != 1:
        return False
    return isinstance(other, Relation)


def _choice(gold: str, prediction: str) -> Verdict | None:
    """The verdict when the gold is a letter of a multiple choice, otherwise None."""
    gold, prediction = (re.sub("[‹›{}]", "", side) for side in (gold, prediction))
    match = re.fullmatch(r"\(?([A-J])\)?(?:[.:)]\s.*)?", gold)
    if not match:
        return None
    found = re.fullmatch(
        r"(?:(?:option|choice|answer)\s+)?[(\[]?([A-J])(?:[)\].:]+(?=[\s\w$\\]|$)\s*(.*)|\s*(?:-|--)\s+(.*)|"
        r"\s+is (?:the )?(?:correct|right|true)(?: answer| choice| option)?)?",
        prediction,
        re.I | re.S,
    )
    if not found or (not found[1].isupper() and f"({found[1]})" not in prediction):
        return Verdict(False, "not one choice")
    rest = found[2] or found[3] or ""
    if re.search(r"(?:^|\W)\(?[A-J][).:](?:\W|$)|\b(?:or|and|not)\b|^\W*[A-J]\W*$", rest):
        return Verdict(False, "not one choice")
    return Verdict(found[1].upper() == match[1], "choice letter")


@lru_cache(maxsize=65536)
def equal(gold: str, prediction: str | None, rules: Rules = DEFAULT) -> Verdict:
    """Whether a prediction is the same answer as the gold, and why (see the module)."""
    if prediction is None or not prediction.strip() or not gold.strip():
        return Verdict(False, "empty")
    gold, prediction = gold.strip(), prediction.strip()
    if gold == prediction:
        return Verdict(True, "same text")
    if max(len(gold), len(prediction)) > MAX_LENGTH:
        return Verdict(False, "too long")
    a, b = clean(gold), clean(prediction)
    if not a or not b:
        return Verdict(False, "empty")
    if tight(a) == tight(b):
        return Verdict(True, "same text")
    found = _choice(a, b)
    if found:
        return found
    try:
        with deadline(SECONDS):
            left, right = read(a), read(b)
            found = compare(left, right, rules)
            if found.equal or not (_symbolic(left, right) or _symbolic(right, left)):
                return found
        reply = worker.ask(a, b)
        return Verdict(bool(reply.equal), reply.why)
    except (TooBig, OutOfTime) as error:
        return Verdict(False, str(error))
