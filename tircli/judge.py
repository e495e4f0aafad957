"""Judging: fills `correct`, `prediction`'s verdict and the format check (SPEC 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tircli import protocols, registry
from tircli.answers import qa
from tircli.answers.math import equal
from tircli.records import Group, Json, Trajectory

Judge = Callable[[Trajectory], "tuple[float | None, Json]"]
"""`(correct, details)`; correct None = cannot be judged; details hold `name` and `why`."""

BUILT_IN = {name: f"tircli.judge:judge_{name}" for name in ("auto", "exact", "math", "qa")}


def judge_math(trajectory: Trajectory) -> tuple[float | None, Json]:
    """1 if the prediction equals a gold answer (SPEC 2.1), else 0."""
    if not any(gold.strip() for gold in trajectory.golds):
        return None, {"name": "math", "why": "no gold answer"}
    why = "no prediction"
    for gold in trajectory.golds:
        verdict = equal(gold, trajectory.prediction)
        why = verdict.why
        if verdict.equal:
            return 1.0, {"name": "math", "why": why}
    return 0.0, {"name": "math", "why": why}


def judge_qa(trajectory: Trajectory) -> tuple[float | None, Json]:
    """Token F1 against the best gold, `em` beside it (SPEC 2.2)."""
    if not any(gold.strip() for gold in trajectory.golds):
        return None, {"name": "qa", "why": "no gold answer"}
    em = qa.em(trajectory.golds, trajectory.prediction)
    f1 = qa.f1(trajectory.golds, trajectory.prediction)
    why = "no prediction" if trajectory.prediction is None else f"em {em:g}, f1 {f1:.4g}"
    return f1, {"name": "qa", "why": why, "em": em, "f1": f1}


def judge_exact(trajectory: Trajectory) -> tuple[float | None, Json]:
    """1 if the prediction is a gold answer to the letter, else 0."""
    if not trajectory.golds:
        return None, {"name": "exact", "why": "no gold answer"}
    same = trajectory.prediction in trajectory.golds
    return float(same), {"name": "exact", "why": "same text" if same else "other text"}


def judge_auto(trajectory: Trajectory) -> tuple[float | None, Json]:
    """`math` or `qa`, as the trajectory's task says."""
    return (judge_qa if trajectory.task == "qa" else judge_math)(trajectory)


def judge(groups: Iterable[Group], name: str = "auto") -> Iterator[Group]:
    """The groups with `correct` and `judge` filled; trajectories without an end stay as they are.

    One that ended in an error is not judged: it is redone, not wrong (SPEC 1.2).
    """
    decide: Judge = registry.load("judge", name, BUILT_IN)
    check = _Format()
    for group in groups:
        for trajectory in group:
            if trajectory.stop == "error" or (trajectory.stop is None and trajectory.segments):
                continue
            trajectory.correct, details = decide(trajectory)
            violations = check(trajectory)
            if violations is not None:
                details = details | {"format": violations}
            trajectory.judge = details
        yield group


class _Format:
    """The violations of a trajectory, by the protocol that made it; None if that is unknown."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __call__(self, trajectory: Trajectory) -> list[str] | None:
        name = (trajectory.made or {}).get("protocol")
        if not isinstance(name, str) or not trajectory.segments:
            return None
        if name not in self._loaded:
            self._loaded[name] = protocols.load(name)
        violations: list[str] = self._loaded[name].violations(trajectory)
        return violations
