"""Pareto sampling: the groups that differ most in correctness and in calls (SPEC 4).

What a group is scored on, where SPEC 4 leaves it open:
- members that ended in an error, are unfinished, have not begun or cannot be judged (no gold) do
  not measure the model; they are left out of both scores, and stay in a group that is kept;
- a group without a scored member is set aside as `unscored`, whatever the options;
- a member counts as right if `correct` is above 0.8 (SPEC 2.3).
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tircli.judge import SOLVED, enter, load
from tircli.papers.pareto import dispersion, front_numbers, select
from tircli.records import Group, Trajectory

SET_ASIDE = ("all right", "all wrong", "unscored")
LEFT_OUT = ("error", "unfinished", "not begun", "not gradable")


def filled(groups: Iterable[Group]) -> Iterator[Group]:
    """The groups, members without `correct` judged by rule; all others as they are."""
    decide = load("auto")
    for group in groups:
        for trajectory in group:
            if trajectory.correct is None and _why_left_out(trajectory) == "not gradable":
                enter(trajectory, decide(trajectory))
        yield group


def right(trajectory: Trajectory) -> bool:
    """True if it counts as correct for selection (SPEC 2.3)."""
    return (trajectory.correct or 0.0) > SOLVED


def _why_left_out(trajectory: Trajectory) -> str | None:
    """Why the trajectory has no part in the scores, one of LEFT_OUT; None if it has."""
    if trajectory.stop == "error":
        return "error"
    if trajectory.correct is not None:
        return None
    if trajectory.stop is None and trajectory.segments:
        return "unfinished"
    if trajectory.stop is None and trajectory.prediction is None:
        return "not begun"
    return "not gradable"


class Population:
    """The scores of the groups of one task, or of all: two floats, an offset and a place each."""

    def __init__(self) -> None:
        self.s_corr, self.s_tool = array("d"), array("d")
        self.offsets = array("q")
        self.fronts: list[int] = []
        self.kept: list[int] = []
        """Indices of the groups that are kept, ascending; filled by `Sampler.choose`."""
        self.quota = 0

    def report(self) -> dict[str, Any]:
        """Sizes of the fronts up to the one that was cut, and what was kept of each."""
        sizes, kept = Counter(self.fronts), Counter(self.fronts[i] for i in self.kept)
        return {
            "eligible": len(self.offsets),
            "quota": self.quota,
            "kept": len(self.kept),
            "fronts": len(sizes),
            "kept_of_fronts": [
                {"front": front, "groups": sizes[front], "kept": kept[front]}
                for front in sorted(kept)
            ],
        }


class Sampler:
    """Takes the groups one by one, then chooses `keep` of them."""

    def __init__(self, keep: int, *, keep_uniform: bool = False, pool: bool = False) -> None:
        self.keep, self.keep_uniform, self.pool = keep, keep_uniform, pool
        self.populations: dict[str, Population] = {}
        self.groups = self.trajectories = 0
        self.set_aside: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()

    def add(self, group: Group, offset: int) -> None:
        """Scores one group, to be found again at `offset`."""
        self.groups += 1
        self.trajectories += len(group)
        whys = [_why_left_out(trajectory) for trajectory in group]
        self.left_out.update(why for why in whys if why is not None)
        scored = [t for t, why in zip(group, whys, strict=True) if why is None]
        rights = {right(trajectory) for trajectory in scored}
        why = "unscored" if not scored else None
        if len(rights) == 1 and not self.keep_uniform:
            why = "all right" if True in rights else "all wrong"
        if why is not None:
            self.set_aside[why] += 1
            return
        name = "all" if self.pool else group[0].task
        population = self.populations.setdefault(name, Population())
        population.s_corr.append(dispersion([t.correct or 0.0 for t in scored]))
        population.s_tool.append(dispersion([t.calls for t in scored]))
        population.offsets.append(offset)

    def choose(self) -> list[int]:
        """The offsets of the groups that are kept, in the order of the input."""
        sizes = {name: len(part.offsets) for name, part in self.populations.items()}
        for name, quota in shares(sizes, self.keep).items():
            part = self.populations[name]
            part.quota = quota
            part.fronts = front_numbers(part.s_corr, part.s_tool)
            part.kept = select(part.s_corr, part.s_tool, quota, part.fronts)
        return sorted(part.offsets[i] for part in self.populations.values() for i in part.kept)

    def report(self) -> dict[str, Any]:
        """What happened, as one JSON object."""
        kept = sum(len(part.kept) for part in self.populations.values())
        return {
            "groups": self.groups,
            "trajectories": self.trajectories,
            "left_out_of_scores": {why: self.left_out[why] for why in LEFT_OUT},
            "set_aside": {why: self.set_aside[why] for why in SET_ASIDE},
            "keep": self.keep,
            "kept": kept,
            "shortfall": max(self.keep - kept, 0),
            "tasks": {name: part.report() for name, part in self.populations.items()},
        }


def shares(sizes: dict[str, int], keep: int) -> dict[str, int]:
    """`keep` places dealt out in proportion to `sizes`, at most all of each; largest remainder.

    Equal remainders go to the first. Sizes 60 and 30 with 10 places: 7 and 3.
    """
    total = sum(sizes.values())
    if keep >= total:
        return dict(sizes)
    quotas = {name: keep * size // total for name, size in sizes.items()}
    by_rest = sorted(sizes, key=lambda name: -(keep * sizes[name] % total))
    for name in by_rest[: keep - sum(quotas.values())]:
        quotas[name] += 1
    return quotas
