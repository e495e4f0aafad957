"""How much of a judged stream has a verdict, and why the rest has none."""

from __future__ import annotations

from collections import Counter

from tircli.judge import EMPTY_GOLD, judgeable
from tircli.records import Json, Trajectory

_KINDS = {True: "redundant", False: "not_redundant", None: "ungraded"}


class Coverage:
    """Counts judged records."""

    def __init__(self) -> None:
        self.lost = 0
        """Verdicts that a fault has cost: an empty gold answer, a model that failed."""
        self._counts: Counter[str] = Counter()
        self._why: Counter[str] = Counter()
        self._by: Counter[str] = Counter()
        self._redundant: Counter[str] = Counter()
        self._sums = {"correct": 0.0, "reward": 0.0}

    def add(self, trajectory: Trajectory) -> None:
        """Count one record."""
        details = trajectory.judge or {}
        self._counts["n"] += 1
        if trajectory.reward is not None:
            self._counts["rewards"] += 1
            self._sums["reward"] += trajectory.reward
        if not judgeable(trajectory):
            self._counts["errors" if trajectory.stop == "error" else "unfinished"] += 1
            return
        self._by[str(details.get("name"))] += 1
        self.lost += failed(trajectory) or details.get("why") == EMPTY_GOLD
        if trajectory.correct is None:
            self._counts["ungraded"] += 1
            self._why[str(details.get("why")).partition(":")[0]] += 1
        else:
            self._counts["graded"] += 1
            self._sums["correct"] += trajectory.correct
        if "redundant" in details:
            self._redundant[_KINDS[details["redundant"]]] += 1

    def report(self) -> Json:
        """`n` = graded + ungraded + errors + unfinished; `coverage` is graded of the first two."""
        names = ("n", "graded", "ungraded", "errors", "unfinished")
        result: Json = {name: self._counts[name] for name in names}
        graded, asked = result["graded"], result["graded"] + result["ungraded"]
        result["coverage"] = graded / asked if asked else None
        result["correct"] = self._sums["correct"] / graded if graded else None
        result["ungraded_why"], result["judges"] = dict(self._why), dict(self._by)
        if self._redundant:
            result["redundancy"] = {kind: self._redundant[kind] for kind in _KINDS.values()}
        if rewards := self._counts["rewards"]:
            result["rewards"] = {"n": rewards, "mean": self._sums["reward"] / rewards}
        return result


def failed(trajectory: Trajectory) -> bool:
    """True if a verdict is missing because the model or its server failed."""
    details = trajectory.judge or {}
    other = details.get("other") or {}
    verdicts = [
        (trajectory.correct, details.get("votes")),
        (other.get("correct", 0.0), other.get("votes")),
        (details.get("redundant"), details.get("redundancy")),
    ]
    return any(said is None and (votes or {}).get("failed", 0) > 0 for said, votes in verdicts)


def summary(report: Json) -> str:
    """One line for people."""
    graded = f"{report['graded']} graded"
    if report["correct"] is not None:
        graded += f", correct {report['correct']:.4g}"
    why = ", ".join(f"{count} {what}" for what, count in report["ungraded_why"].items())
    ungraded = f"{report['ungraded']} ungraded" + (f" ({why})" if why else "")
    rest = f"{report['errors']} with errors, {report['unfinished']} unfinished"
    return f"judged {report['n']} trajectories: {graded}; {ungraded}; {rest}"
