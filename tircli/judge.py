"""Judging by rule: fills `correct` and `judge`, with the format check (SPEC 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from typing import Any

from tircli import protocols, registry
from tircli.answers import Rules, qa
from tircli.answers.math import equal
from tircli.protocols import Protocol
from tircli.records import Group, InputError, Json, Trajectory

Verdict = tuple["float | None", Json]
"""`(correct, details)`: correct is 0..1 or None = no verdict; details hold `name` and `why`."""
Judge = Callable[[Trajectory], Verdict]

DEFAULT = Rules()
BUILT_IN = {name: f"tircli.judge:judge_{name}" for name in ("auto", "exact", "math", "qa")}
SOLVED = 0.8
"""A trajectory is right when `correct` is above this (SPEC 2.3)."""
EMPTY_GOLD = "the gold answer is empty"


def judge_math(trajectory: Trajectory, rules: Rules = DEFAULT) -> Verdict:
    """1 if the prediction equals a gold answer (SPEC 2.1), else 0."""
    why = "no prediction"
    for gold in trajectory.golds:
        verdict = equal(gold, trajectory.prediction, rules)
        why = verdict.why
        if verdict.equal:
            return 1.0, {"name": "math", "why": why}
    return 0.0, {"name": "math", "why": why}


def judge_qa(trajectory: Trajectory) -> Verdict:
    """Token F1 against the best gold, `em` beside it (SPEC 2.2)."""
    em = qa.em(trajectory.golds, trajectory.prediction)
    f1 = qa.f1(trajectory.golds, trajectory.prediction)
    why = "no prediction" if trajectory.prediction is None else f"em {em:g}, f1 {f1:.4g}"
    return f1, {"name": "qa", "why": why, "em": em, "f1": f1}


def judge_exact(trajectory: Trajectory) -> Verdict:
    """1 if the prediction is a gold answer to the letter, else 0."""
    prediction = trajectory.prediction
    same = prediction in trajectory.golds and bool(prediction and prediction.strip())
    return float(same), {"name": "exact", "why": "same text" if same else "other text"}


def judge_auto(trajectory: Trajectory, rules: Rules = DEFAULT) -> Verdict:
    """`math` or `qa`, as the trajectory's task says."""
    return judge_qa(trajectory) if trajectory.task == "qa" else judge_math(trajectory, rules)


def judgeable(trajectory: Trajectory) -> bool:
    """True if it has ended, and not in an error: such a one is redone, not wrong (SPEC 1.2)."""
    return trajectory.stop != "error" and (trajectory.stop is not None or not trajectory.segments)


def load(name: str, rules: Rules = DEFAULT) -> Judge:
    """The rule judge called `name`, or the user's; the guards of `decide` around it."""
    found: Judge = registry.load("judge", name, BUILT_IN)
    if name in ("auto", "math"):
        found = partial(judge_auto if name == "auto" else judge_math, rules=rules)
    elif rules.changed():
        option = next(iter(rules.changed()))
        raise InputError(f"--{option}: only the judges auto and math read it")

    def guarded(trajectory: Trajectory) -> Verdict:
        if name in BUILT_IN:
            missing = no_gold(trajectory)
            return (None, {"name": name, "why": missing}) if missing else found(trajectory)
        return _checked(found(trajectory), name, trajectory)

    return guarded


def no_gold(trajectory: Trajectory) -> str | None:
    """Why there is nothing to compare with; None if there is. An empty gold is a data error."""
    if any(gold.strip() for gold in trajectory.golds):
        return None
    return EMPTY_GOLD if trajectory.golds else "no gold answer"


def _checked(verdict: Any, name: str, trajectory: Trajectory) -> Verdict:
    """What a user's judge returned, if it keeps the contract."""
    if isinstance(verdict, tuple) and len(verdict) == 2 and isinstance(verdict[1], dict):
        score, details = verdict
        if score is None:
            return None, details
        if isinstance(score, (bool, int, float)) and math.isfinite(score) and 0 <= score <= 1:
            return float(score), details
    raise InputError(
        f'--judge {name}: returned {verdict!r:.80} for "{trajectory.id}"; '
        "return (a number from 0 to 1 or None, {...})"
    )


def judge(
    groups: Iterable[Group], name: str = "auto", warn: Callable[[str], None] = lambda text: None
) -> Iterator[Group]:
    """The groups with `correct` and `judge` filled; what has not ended stays as it is."""
    decide = load(name)
    for group in groups:
        for trajectory in group:
            if judgeable(trajectory):
                enter(trajectory, decide(trajectory), warn)
        yield group


def enter(
    trajectory: Trajectory, verdict: Verdict, warn: Callable[[str], None] = lambda text: None
) -> None:
    """Write a verdict into the record, with the violations of its protocol's form.

    What an LLM judge said about redundancy stays until it is asked again.
    """
    old = trajectory.judge or {}
    trajectory.correct, details = verdict
    protocol = protocol_of(trajectory, warn)
    if protocol is not None:
        details = details | {"format": protocol.violations(trajectory)}
    kept = {key: old[key] for key in ("redundant", "redundancy") if key in old}
    trajectory.judge = details | kept


def protocol_of(
    trajectory: Trajectory, warn: Callable[[str], None] = lambda text: None
) -> Protocol | None:
    """The protocol that made it; None if the record names none, or one that is not here."""
    name = (trajectory.made or {}).get("protocol")
    return _protocol(name, warn) if isinstance(name, str) and trajectory.segments else None


@lru_cache
def _protocol(name: str, warn: Callable[[str], None]) -> Protocol | None:
    # The cache makes the warning come once: records may come from a machine with other protocols.
    try:
        return protocols.load(name)
    except InputError as error:
        warn(f"form not checked: {error}")
        return None
