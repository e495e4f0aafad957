"""Several judges over the same trajectories, side by side: agreement, kappa, what they split on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations

from tircli import judge, statistics
from tircli.records import Group, InputError, Json, Trajectory

RECORDED = "recorded"
"""The verdict that the record already holds."""


def recorded(trajectory: Trajectory) -> judge.Verdict:
    """`correct` and `judge` as they stand in the record."""
    return trajectory.correct, trajectory.judge or {}


def load(names: Sequence[str]) -> dict[str, judge.Judge]:
    """The judges by name; `recorded` is what the record holds. Raises InputError."""
    if len(set(names)) < 2:
        raise InputError("--graders: give two or more by comma, for example recorded,math")
    return {name: recorded if name == RECORDED else judge.load(name) for name in names}


def side_by_side(
    groups: Iterable[Group],
    graders: dict[str, judge.Judge],
    split: Callable[[Json], None] = lambda row: None,
) -> Json:
    """Counts over all trajectories that ended; each on which graders differ goes to `split`.

    Gives `n`, for each grader `graded` and `correct` (its mean), and for each pair `n` (both
    graded), `agree` (share with the same verdict, right meaning `correct` = 1), `kappa` (Cohen)
    and the counts `both`, `only` the first, `only` the second, `neither`.
    """
    n = 0
    graded: Counter[str] = Counter()
    sums = dict.fromkeys(graders, 0.0)
    tables = {pair: [[0, 0], [0, 0]] for pair in combinations(graders, 2)}
    for group in groups:
        for trajectory in group:
            if not judge.judgeable(trajectory):
                continue
            n += 1
            verdicts = {name: grade(trajectory) for name, grade in graders.items()}
            rights: dict[str, bool] = {}
            for name, (correct, _) in verdicts.items():
                if correct is not None:
                    graded[name] += 1
                    sums[name] += correct
                    rights[name] = correct >= 1
            for pair, table in tables.items():
                if pair[0] in rights and pair[1] in rights:
                    table[rights[pair[0]]][rights[pair[1]]] += 1
            if len(set(rights.values())) > 1 or 0 < len(rights) < len(graders):
                split(_row(trajectory, verdicts))
    return {
        "n": n,
        "graders": {
            name: {"graded": graded[name], "correct": sums[name] / graded[name]}
            if graded[name]
            else {"graded": 0, "correct": None}
            for name in graders
        },
        "pairs": {f"{a}/{b}": _agreement(table) for (a, b), table in tables.items()},
    }


def _agreement(table: list[list[int]]) -> Json:
    n = sum(map(sum, table))
    return {
        "n": n,
        "agree": (table[0][0] + table[1][1]) / n if n else None,
        "kappa": statistics.kappa(table),
        "both": table[1][1],
        "only_first": table[1][0],
        "only_second": table[0][1],
        "neither": table[0][0],
    }


def _row(trajectory: Trajectory, verdicts: dict[str, judge.Verdict]) -> Json:
    return {
        "id": trajectory.id,
        "group": trajectory.group,
        "question": trajectory.question,
        "answer": trajectory.answer,
        "prediction": trajectory.prediction,
        "verdicts": {
            name: {"correct": correct, "why": details.get("why")}
            for name, (correct, details) in verdicts.items()
        },
    }
