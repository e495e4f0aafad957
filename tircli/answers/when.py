"""Dates and times of day in answers."""

from __future__ import annotations

import re

from tircli.answers.values import Date

_MONTHS = (
    "january february march april may june july august september october november december"
).split()
_MONTH = "|".join(sorted({*_MONTHS, *(m[:3] for m in _MONTHS), "sept"}, key=len, reverse=True))
_DATES = (
    re.compile(
        rf"(?P<m>{_MONTH})\.?\s+(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?:,?\s+(?P<y>\d{{4}}))?", re.I
    ),
    re.compile(
        rf"(?:the )?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?\s+(?P<m>{_MONTH})\.?"
        r"(?:,?\s+(?P<y>\d{4}))?",
        re.I,
    ),
    re.compile(rf"(?P<m>{_MONTH})\.?,?\s+(?P<y>\d{{4}})", re.I),
    re.compile(r"(?P<y>\d{4})-(?P<m>\d{2})-(?P<d>\d{2})"),
)
_CLOCK = re.compile(
    r"(\d{1,2})(?::(\d{1,2})(?::(\d{2}))?)?\s*(a\.?\s?m\.?|p\.?\s?m\.?|o'clock|noon|midnight|h)?",
    re.I,
)


def date(text: str) -> Date | None:
    """The day that a text names, None if it names none."""
    for pattern in _DATES:
        match = pattern.fullmatch(text)
        if match:
            found = match.groupdict()
            month = found["m"].lower()
            number = int(month) if month.isdigit() else _month(month)
            day = int(found.get("d") or 0)
            if 1 <= number <= 12 and day <= 31:
                return Date(int(found["y"] or 0), number, day)
    return None


def _month(name: str) -> int:
    return next(n for n, month in enumerate(_MONTHS, 1) if month.startswith(name[:3]))


def clock(text: str) -> tuple[tuple[int, int, str], bool] | None:
    """Minutes of the day, seconds and a kind, and whether nothing else (a ratio) is meant.

    The kind is `half` (am, pm), `24` (an hour that only the long clock has) or empty.
    """
    if text.lower() in ("noon", "midnight"):
        return ((12 * 60 if text.lower() == "noon" else 0), 0, "half"), True
    match = _CLOCK.fullmatch(text)
    if not match or not (match[2] or match[4]):
        return None
    hour, minute, second = int(match[1]), match[2] or "0", int(match[3] or 0)
    half = re.sub(r"[.\s]", "", (match[4] or "").lower())
    if hour > 24 or int(minute) > 59 or second > 59 or (match[2] and len(minute) < 2):
        return None
    if not match[2] and half not in ("am", "pm", "o'clock", "noon", "midnight"):
        return None
    if half in ("am", "pm", "noon", "midnight") and not 1 <= hour <= 12:
        return None
    total = 60 * hour + int(minute)
    if half in ("am", "midnight"):
        return (total % 720, second, "half"), True
    if half in ("pm", "noon"):
        return (total % 720 + 720, second, "half"), True
    certain = minute.startswith("0") or match[1].startswith("0") or half == "o'clock"
    long = hour > 12 or match[1].startswith("0")
    return (total, second, "24" if long else ""), certain
