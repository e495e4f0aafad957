"""Measures of sets of trajectories, in one pass, with intervals clustered by question (SPEC 8).

Memory does not grow with the input: the sums of each question are kept for the bootstrap up to
BOOTSTRAP_QUESTIONS; beyond, only their moments are, and the interval is the normal one.
"""

from __future__ import annotations

import functools
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tircli import statistics
from tircli.records import Group, InputError
from tircli.slices import Slices
from tircli.sums import RATIOS, SUMS, UNBOUNDED, Row, begun, reading, rescues

BOOTSTRAP_QUESTIONS = 4096
NAMES = tuple(RATIOS)
DEFAULT_K = tuple(1 << bit for bit in range(14))


def measure(
    groups: Iterable[Group], *, by: Sequence[str] = (), seed: int = 0, k: Sequence[int] = ()
) -> dict[str, Any]:
    """All metrics of SPEC 8 over `groups`, one list of samples per question, read once.

    Gives `n`, `questions`, `graded`, `ungraded`, `errors` (these three sum to `n`), `metrics`
    (name -> `mean`, `low`, `high`, `stderr`, each a number or None), `counts`, and `calls`:
    trajectories and accuracy by their number of calls. Trajectories with `stop: "error"` are
    left out of the metrics, but not out of `counts`. With `by`, a key `by` holds the same for
    each value of each field (see `tircli.slices`). `k` picks the pass@k; without it 1 and the
    powers of two up to the smallest group. Raises InputError for a k below 1 or a bad field.
    """
    if any(value < 1 for value in k):
        raise InputError(f"pass@k with k = {min(k)}; give k of 1 or more")
    total, slices = Measures(k), Slices(by, lambda: Measures(k))
    for group in groups:
        total.add(group, group)
        for part, members in slices.of(group):
            part.add(members, group)
    result = total.result(seed)
    if by:
        result["by"] = {name: part.result(seed) for name, part in slices.sorted()}
    return result


class Measures:
    """What one set of trajectories comes to; `add` takes it question by question."""

    def __init__(self, k: Sequence[int] = ()) -> None:
        self.n = self.graded = self.errors = self.violations = self.smallest = 0
        self.stop: Counter[str] = Counter()
        self.status: Counter[str] = Counter()
        self.executed: Counter[str] = Counter()
        self.by_calls: dict[int, list[float]] = {}
        """Executed calls -> trajectories, those graded, their sum of `correct`."""
        self.question_calls: Counter[float] = Counter()
        """Mean calls of a question, to the nearest half -> questions."""
        self.k = tuple(k)
        self.questions = Questions(self.k or DEFAULT_K)

    def add(self, members: Group, group: Group) -> None:
        """Takes `members` of one question; hints are looked up in its whole `group`."""
        if not members:
            return
        row, rescued = Row(), rescues(group)
        for trajectory in members:
            read = reading(trajectory)
            self.n += 1
            self.stop[trajectory.stop or "unfinished"] += 1
            for status in read.statuses:
                self.status[status] += 1
            for tool in read.tools:
                self.executed[tool] += 1
            violations = (trajectory.judge or {}).get("format")
            self.violations += len(violations) if isinstance(violations, list) else 0
            if trajectory.stop == "error":
                self.errors += 1
                continue
            row.add(trajectory, read, rescued.get(trajectory.id))
            if begun(trajectory):
                self._add_calls(read.calls, trajectory.correct)
        self._close(row)

    def _add_calls(self, calls: int, correct: float | None) -> None:
        cell = self.by_calls.get(calls) or self.by_calls.setdefault(calls, [0, 0, 0.0])
        cell[0] += 1
        if correct is not None:
            cell[1] += 1
            cell[2] += correct

    def _close(self, row: Row) -> None:
        sums = row.sums
        graded = int(sums["graded"])
        self.graded += graded
        if sums["begun"]:
            self.question_calls[round(2 * sums["calls"] / sums["begun"]) / 2] += 1
        if graded:
            self.smallest = min(self.smallest or graded, graded)
        self.questions.add(row, pass_at(graded, int(sums["solved"]), self.k or DEFAULT_K))

    def result(self, seed: int) -> dict[str, Any]:
        """The shape that `measure` describes."""
        return {
            "n": self.n,
            "questions": self.questions.n,
            "graded": self.graded,
            "ungraded": self.n - self.graded - self.errors,
            "errors": self.errors,
            "metrics": self.questions.intervals(seed, self._passes()),
            "counts": {
                "stop": dict(sorted(self.stop.items())),
                "status": dict(sorted(self.status.items())),
                "calls": dict(sorted(self.executed.items())),
                "attempted": self.status.total(),
                "format_violations": self.violations,
            },
            "calls": {
                "trajectories": {
                    str(calls): {"n": n, "graded": g, "correct": total / g if g else None}
                    for calls, (n, g, total) in sorted(self.by_calls.items())
                },
                "questions": {f"{mean:g}": n for mean, n in sorted(self.question_calls.items())},
            },
        }

    def _passes(self) -> dict[str, bool]:
        """`pass@k` -> whether every question has enough samples for it."""
        sizes = self.k or [k for k in DEFAULT_K if k <= max(self.smallest, 1)]
        return {f"pass@{k}": k <= self.smallest for k in sizes}


@functools.lru_cache(maxsize=1 << 16)
def pass_at(n: int, solved: int, sizes: tuple[int, ...]) -> tuple[float, ...]:
    """1 - C(n-c, k) / C(n, k) for each k; n graded samples, c of them solved; 0 where k > n."""
    return tuple(1 - math.comb(n - solved, k) / math.comb(n, k) if k <= n else 0.0 for k in sizes)


class Questions:
    """The sums of the questions: as rows, or as moments once they are too many."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.n = 0
        self._sizes = sizes
        self._rows = array("d")
        self._tools: dict[str, array[float]] = {}
        self._moments: dict[str, Any] = {}
        """Metric -> sums of v, w, vv, vw, ww and of questions, over the rows that were dropped."""

    def add(self, row: Row, passes: Sequence[float]) -> None:
        """Takes the sums of one more question, and its pass@k for each of the sizes."""
        there = self.n % BOOTSTRAP_QUESTIONS
        if self.n and not there:
            self._drop()
        for name in row.tools.keys() - self._tools.keys():
            self._tools[name] = array("d", bytes(8 * there))
        self._rows.extend(row.sums.values())
        self._rows.extend(passes)
        for name, column in self._tools.items():
            column.append(row.tools.get(name, 0))
        self.n += 1

    def _columns(self) -> dict[str, tuple[Any, Any, Any]]:
        """Metric -> v, w and whether the question is there, of the rows that are kept."""
        width = len(SUMS) + len(self._sizes)
        rows = np.array(self._rows).reshape(-1, width).T
        sums = dict(zip(SUMS, rows, strict=False))
        ratios = {name: (sums[v], sums[w], sums[w] > 0) for name, (v, w) in RATIOS.items()}
        graded = sums["graded"] > 0
        # A question without calls is no less a cluster of tp: its correct answers count.
        ratios["tp"] = (*ratios["tp"][:2], graded)
        for k, passes in zip(self._sizes, rows[len(SUMS) :], strict=True):
            ratios[f"pass@{k}"] = (passes, graded * 1.0, graded)
        for name, column in self._tools.items():
            ratios[f"tc.{name}"] = (np.array(column), *ratios["tc"][1:])
        return ratios

    def _drop(self) -> None:
        """Turns the rows into moments."""
        for name, (v, w, there) in self._columns().items():
            sums = np.array([v.sum(), w.sum(), v @ v, v @ w, w @ w, there.sum()])
            self._moments[name] = self._moments.get(name, 0) + sums
        self._rows = array("d")
        self._tools = {name: array("d") for name in self._tools}

    def intervals(self, seed: int, passes: dict[str, bool]) -> dict[str, dict[str, float | None]]:
        """Mean, 95 % interval and standard error of each metric; `passes`: pass@k -> defined."""
        tools = [f"tc.{name}" for name in sorted(self._tools)]
        names = [*NAMES[:4], *tools, *NAMES[4:], *passes]
        undefined: dict[str, float | None] = dict.fromkeys(("mean", "low", "high", "stderr"))
        if self._moments:
            self._drop()
            found = {name: _normal(name, self._moments[name]) for name in names}
        else:
            found = _bootstrap(self._columns(), names, self.n, seed)
        return {name: found[name] if passes.get(name, True) else undefined for name in names}


def _bootstrap(
    columns: dict[str, tuple[Any, Any, Any]], names: list[str], questions: int, seed: int
) -> dict[str, dict[str, float | None]]:
    out: dict[str, dict[str, float | None]] = {}
    counts = statistics.draws(questions, seed) if questions > 1 else None
    for name in names:
        v, w, there = columns[name]
        entry: dict[str, float | None] = dict.fromkeys(("mean", "low", "high", "stderr"))
        entry["mean"] = statistics.ratio(v, w)
        out[name] = entry
        entry["stderr"] = statistics.standard_error(v[there], w[there])
        if counts is not None and entry["stderr"] is not None:
            entry["low"], entry["high"] = statistics.bootstrap(
                statistics.resampled_ratio(v, w, counts)
            )
    return out


def _normal(name: str, moments: Any) -> dict[str, float | None]:
    v, w, vv, vw, ww, questions = map(float, moments)
    entry: dict[str, float | None] = dict.fromkeys(("mean", "low", "high", "stderr"))
    if w:
        mean = entry["mean"] = v / w
        if questions > 1:
            spread = max(vv - 2 * mean * vw + mean * mean * ww, 0.0)
            error = entry["stderr"] = math.sqrt(questions / (questions - 1) * spread) / w
            top = math.inf if name.partition(".")[0] in UNBOUNDED else 1.0
            entry["low"] = max(mean - statistics.Z * error, 0.0)
            entry["high"] = min(mean + statistics.Z * error, top)
    return entry
