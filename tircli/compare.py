"""Two sets of trajectories of the same questions, compared question by question (SPEC 8).

Behaviour (OTC, table 3), in per cent of the questions both sets answered: `MA` more accurate
(ours right, base wrong), `LA` less accurate, and among equally right or wrong ones `ME` more
efficient (fewer calls), `LE` less efficient, `tie`; these five sum to 100. `AE` is the part of
`MA` that also has fewer calls. Right is `correct` = 1. A question with several samples counts in
each class by the share of its pairs (one of ours, one of base) in it: what a table over one draw
of each would show on average.

Kept in memory: the sums of each question, and two bytes for each sample.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from tircli import statistics
from tircli.metrics import BOOTSTRAP_QUESTIONS, NAMES
from tircli.records import Group, InputError, stable_seed
from tircli.sums import RATIOS, SUMS, Row, reading, rescues, solved

BEHAVIOUR = ("MA", "LA", "ME", "LE", "tie", "AE")
_MOST_CALLS = (1 << 15) - 1


class Side:
    """One set: per question a key, the sums, and the (calls, right) of each graded sample."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.keys, self.texts = array("q"), array("q")
        self.sums = array("d")
        self.samples = array("H")
        """2 * calls + right, one a graded sample; `starts` says where a question's begin."""
        self.starts = array("q", [0])

    def add(self, group: Group) -> None:
        """Takes one question."""
        row, rescued = Row(), rescues(group)
        for trajectory in group:
            if trajectory.stop == "error":
                continue
            read = reading(trajectory)
            row.add(trajectory, read, rescued.get(trajectory.id))
            if trajectory.correct is not None:
                self.samples.append(2 * min(read.calls, _MOST_CALLS) + solved(trajectory))
        self.keys.append(stable_seed(group[0].group))
        self.texts.append(stable_seed(group[0].question))
        self.sums.extend(row.sums.values())
        self.starts.append(len(self.samples))

    def watch(self, groups: Iterable[Group]) -> Iterable[Group]:
        """The same groups, each taken as it passes."""
        for group in groups:
            self.add(group)
            yield group

    def matrix(self, rows: Any) -> dict[str, Any]:
        """Sum -> its column, for the questions `rows`."""
        columns = np.array(self.sums).reshape(-1, len(SUMS))[rows].T
        return dict(zip(SUMS, columns, strict=True))


def compare(ours: Side, base: Side, seed: int = 0) -> dict[str, Any]:
    """The paired comparison: `questions` in both, `behaviour`, `difference`, `mcnemar`.

    `difference`: metric -> see `statistics.paired`, and `p`. `mcnemar` is None unless every
    question has one graded sample on each side. Raises InputError if nothing pairs, or if a
    question has another text in base.
    """
    _, mine, theirs = np.intersect1d(
        np.array(ours.keys), np.array(base.keys), assume_unique=True, return_indices=True
    )
    order = np.argsort(mine)
    mine, theirs = mine[order], theirs[order]
    if not len(mine):
        raise InputError(
            f"--compare: {base.name}: no question in common with {ours.name}; "
            'questions are paired by "group"'
        )
    differ = np.array(ours.texts)[mine] != np.array(base.texts)[theirs]
    if differ.any():
        raise InputError(
            f"--compare: {base.name}: {int(differ.sum())} of {len(mine)} questions have the "
            'same "group" but another text; compare runs over the same questions'
        )
    shares = _shares(ours, base, mine, theirs)
    both = shares[shares[:, 0] >= 0]
    return {
        "base": base.name,
        "questions": len(mine),
        "only_here": len(ours.keys) - len(mine),
        "only_base": len(base.keys) - len(mine),
        "behaviour": {
            name: float(100 * both[:, i].mean()) if len(both) else None
            for i, name in enumerate(BEHAVIOUR)
        },
        "difference": _differences(ours.matrix(mine), base.matrix(theirs), seed),
        "mcnemar": _mcnemar(ours, base, mine, theirs),
        "p_values": _method(len(mine)),
    }


def _method(questions: int) -> str:
    if questions <= statistics.EXACT_QUESTIONS:
        return "two-sided, all swaps of the sides of questions"
    if questions <= BOOTSTRAP_QUESTIONS:
        return f"two-sided, {statistics.PERMUTATIONS} random swaps of the sides of questions"
    return "two-sided, normal"


def _differences(a: dict[str, Any], b: dict[str, Any], seed: int) -> dict[str, dict[str, Any]]:
    names, found = [], {}
    columns: list[list[Any]] = [[], [], [], []]
    questions = len(a["graded"])
    few = 1 < questions <= BOOTSTRAP_QUESTIONS
    counts = statistics.draws(questions, seed) if few else None
    for name in NAMES:
        v, w = RATIOS[name]
        there = "graded" if name == "tp" else w
        both = (a[there] > 0) & (b[there] > 0)
        sides = [np.where(both, side[key], 0.0) for side in (a, b) for key in (v, w)]
        entry: dict[str, Any] = statistics.paired(sides[:2], sides[2:], counts)
        found[name] = entry | {"p": None}
        if entry["stderr"] is None:
            continue
        if counts is None:
            found[name]["p"] = statistics.normal_p(entry["difference"], entry["stderr"])
        names.append(name)
        for column, side in zip(columns, sides, strict=True):
            column.append(side)
    if names and few:
        stacked = [np.column_stack(column) for column in columns]
        values = statistics.swap_p(stacked[:2], stacked[2:], seed)
        for name, p in zip(names, values, strict=True):
            found[name]["p"] = p
    return found


def _shares(ours: Side, base: Side, mine: Any, theirs: Any) -> Any:
    """`(questions, 6)`: share of each question's pairs in each class; -1 if a side is ungraded.

    Questions with as many samples on both sides are counted together.
    """
    out = np.full((len(mine), len(BEHAVIOUR)), -1.0)
    starts = np.array(ours.starts)[mine], np.array(base.starts)[theirs]
    sizes = (
        np.array(ours.starts)[mine + 1] - starts[0],
        np.array(base.starts)[theirs + 1] - starts[1],
    )
    samples = np.array(ours.samples, dtype=int), np.array(base.samples, dtype=int)
    for n_a, n_b in np.unique(np.column_stack(sizes), axis=0).tolist():
        if not n_a or not n_b:
            continue
        rows = np.flatnonzero((sizes[0] == n_a) & (sizes[1] == n_b))
        for part in np.array_split(rows, max(1, len(rows) * n_a * n_b // 1_000_000)):
            a = samples[0][starts[0][part, None] + np.arange(n_a)][:, :, None]  # (Q, n_a, 1)
            b = samples[1][starts[1][part, None] + np.arange(n_b)][:, None, :]  # (Q, 1, n_b)
            out[part] = np.column_stack([kind.mean((1, 2)) for kind in _classes(a, b)])
    return out


def _classes(a: Any, b: Any) -> tuple[Any, ...]:
    """In the order of BEHAVIOUR: whether each pair of `2 * calls + right` is in the class."""
    right_a, right_b, calls_a, calls_b = a & 1, b & 1, a >> 1, b >> 1
    more, same, fewer = right_a > right_b, right_a == right_b, calls_a < calls_b
    efficient = (same & fewer, same & (calls_a > calls_b), same & (calls_a == calls_b))
    return (more, right_a < right_b, *efficient, more & fewer)


def _mcnemar(ours: Side, base: Side, mine: Any, theirs: Any) -> dict[str, Any] | None:
    """Discordant questions and the exact p-value, for one sample a question."""
    starts = [np.array(side.starts) for side in (ours, base)]
    if any(
        (np.diff(start)[rows] != 1).any()
        for start, rows in zip(starts, (mine, theirs), strict=True)
    ):
        return None
    a = np.array(ours.samples)[starts[0][mine]] & 1
    b = np.array(base.samples)[starts[1][theirs]] & 1
    better, worse = int((a > b).sum()), int((a < b).sum())
    return {"better": better, "worse": worse, "p": statistics.mcnemar_p(better, worse)}
