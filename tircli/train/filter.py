"""Which trajectories are worth imitating: the RFT filter (SPEC 5; ET-Agent, action space)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from tircli.records import Group, Trajectory, stable_random, stable_seed

QA_CORRECT = 0.8
"""A qa trajectory counts as correct above this F1 (SPEC 2.3)."""


def rft(
    groups: Iterable[Group],
    *,
    per_question: int | None = None,
    size: int | None = None,
    seed: int = 0,
    by_reward: bool = False,
) -> tuple[list[Trajectory], Counter[str]]:
    """`(kept, rejected)`: correct, well-formed and without a failed execution; reasons counted.

    At most `per_question` of a question and `size` in all are kept, drawn by `seed`: neither the
    order of the input nor that of the groups changes which. Kept ones stand in input order.
    `by_reward`: of a question those of the highest reward, only equals are drawn.
    """
    rejected: Counter[str] = Counter()
    kept: list[Trajectory] = []
    for group in groups:
        good, texts = [], set()
        for trajectory in group:
            why = reason(trajectory)
            text = stable_seed(" ".join(_written(trajectory).split()))
            if why is None and text in texts:
                why = "same text as another"
            if why is None:
                good.append(trajectory)
                texts.add(text)
            else:
                rejected[why] += 1
        some = _draw(good, per_question, seed, by_reward)
        rejected["over --per-question"] += len(good) - len(some)
        kept += some
    final = _draw(kept, size, seed)
    rejected["over --size"] += len(kept) - len(final)
    return final, +rejected


def reason(trajectory: Trajectory) -> str | None:
    """Why a judged trajectory is not to be imitated; None = it is fine."""
    if trajectory.stop is None:
        return "unfinished"
    if trajectory.stop == "error":
        return "ended in an error"
    if trajectory.correct is None:
        return "not judged"
    if trajectory.correct <= QA_CORRECT if trajectory.task == "qa" else trajectory.correct < 1:
        return "not correct"
    form = (trajectory.judge or {}).get("format")
    if form is None:
        return "form not checked: its protocol is unknown"
    if form:
        return "malformed"
    if any(use.status != "ok" for use in trajectory.uses):
        return "a failed execution"
    return None


def _written(trajectory: Trajectory) -> str:
    return "".join(s.text for s in trajectory.segments if s.role != "prompt")


def _draw(
    items: list[Trajectory], count: int | None, seed: int, by_reward: bool = False
) -> list[Trajectory]:
    """`count` of `items`, each with a lot of its own, in their order."""
    if count is None or len(items) <= count:
        return items

    def lot(item: Trajectory) -> tuple[float, float, str]:
        worth = item.reward if by_reward and item.reward is not None else -math.inf
        return -worth, stable_random(seed, item.id).random(), item.id

    chosen = {id(item) for item in sorted(items, key=lot)[:count]}
    return [item for item in items if id(item) in chosen]
