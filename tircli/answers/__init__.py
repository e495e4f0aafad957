"""Judging of answers: mathematical equality and question answering scores."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """Whether two answers are equal, and the reason in a few words."""

    equal: bool
    why: str
