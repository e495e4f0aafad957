"""Measures of sets of trajectories, in one pass, with intervals clustered by question (SPEC 8)."""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tircli.records import Group, InputError, Trajectory, stable_seed

if TYPE_CHECKING:
    from rich.table import Table

RESAMPLES = 1000
BOOTSTRAP_QUESTIONS = 4096
"""Above so many questions the interval is the normal one, so that memory stays bounded."""
MAX_SLICES = 1000
UNIT = ("em", "f1", "correct", "effi", "conciseness")
SUCCESS = ("successful_execution", "successful_execution_plus1")
NAMES = (*UNIT[:3], "tc", "tp", *UNIT[3:], *SUCCESS, "reasoning_length")
COSTS = ("model_tokens", "tool_tokens", "seconds")
_FIELDS = [
    "id",
    "group",
    "question",
    "answer",
    "task",
    "sample",
    "k",
    "stop",
    "prediction",
    "correct",
    "reward",
]
_ABSENT = object()


def measure(
    groups: Iterable[Group], *, by: Sequence[str] = (), seed: int = 0, k: Sequence[int] = ()
) -> dict[str, Any]:
    """All metrics of SPEC 8 over `groups`, one list of samples per question, read once.

    Gives `n`, `questions`, `graded`, `ungraded`, `errors` (these three sum to `n`), `metrics`
    (name -> `mean`, `low`, `high`, `stderr`, each a number or None) and `counts`. Trajectories
    with `stop: "error"` are left out of the metrics, but not out of `counts`. With `by`, a key
    `by` holds the same for each `field=value`, the field being a key of the trajectory, of
    `meta`, of `made` or one that is not ours; a record without it stands under `field=null`.
    `k` picks the pass@k; without it 1 and the powers of two up to the smallest group.
    Raises InputError for a k below 1, a field no record has, or one of over 1000 values.
    """
    if any(value < 1 for value in k):
        raise InputError(f"pass@k with k = {min(k)}; give k of 1 or more")
    total = _Sums()
    slices: dict[str, dict[str, _Sums]] = {field: {} for field in by}
    found: set[str] = set()
    for group in groups:
        touched = {id(total): total}
        for trajectory in group:
            total.add(trajectory)
            for field, parts in slices.items():
                value = _field(trajectory, field)
                if value is not _ABSENT:
                    found.add(field)
                name = f"{field}={_show(value)}"
                part = parts.get(name) or parts.setdefault(name, _Sums())
                part.add(trajectory)
                touched[id(part)] = part
                if len(parts) > MAX_SLICES:
                    raise InputError(f"by {field}: over {MAX_SLICES} values; give another field")
        if group:
            for sums in touched.values():
                sums.close()
    for field in by:
        if total.rows and field not in found:
            known = ", ".join(_FIELDS)
            raise InputError(
                f"by {field}: no record has it; give one of {known} or a key of meta or made"
            )
    result = total.result(seed, k)
    if by:
        result["by"] = {
            name: parts[name].result(seed, k) for parts in slices.values() for name in sorted(parts)
        }
    return result


def fail_under(result: dict[str, Any], limits: dict[str, float]) -> list[str]:
    """One line for each metric of `result` that is below its limit or null (SPEC 8).

    Raises InputError, which lists the names, for a metric that is not in `result`.
    """
    lines = []
    for name, limit in limits.items():
        if name not in result["metrics"]:
            known = ", ".join(result["metrics"])
            raise InputError(f"no metric {name!r}; give one of {known}")
        mean = result["metrics"][name]["mean"]
        if mean is None:
            lines.append(f"{name} is null, limit {limit:g}")
        elif not mean >= limit:
            lines.append(f"{name} is {mean:.6g}, below {limit:g}")
    return lines


def table(result: dict[str, Any]) -> Table:
    """`result` of `measure` as a table: metric, mean, 95 % interval, one more column a slice."""
    from rich.table import Table
    from rich.text import Text

    slices = result.get("by", {})
    parts = [result, *slices.values()]
    grid = Table()
    grid.add_column("metric")
    for header in ("mean", "95 % interval", *slices):
        grid.add_column(Text(header), justify="right")
    for name in dict.fromkeys(name for part in parts for name in part["metrics"]):
        cells = [_number(part["metrics"].get(name, {}).get("mean")) for part in parts]
        whole = result["metrics"].get(name, {})
        low, high = whole.get("low"), whole.get("high")
        span = "-" if low is None else f"{_number(low)} to {_number(high)}"
        grid.add_row(*map(Text, (name, cells[0], span, *cells[1:])))
    grid.add_section()
    rows = [_count_rows(part) for part in parts]
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = [str(row.get(name, 0)) for row in rows]
        grid.add_row(*map(Text, (name, cells[0], "", *cells[1:])))
    return grid


class _Sums:
    """Sums of one slice, one row a question: compact columns that grow by one number a question.

    Each metric is a ratio of two column sums, `name` over `name/n`.
    """

    def __init__(self) -> None:
        self.rows = self.n = self.graded = self.errors = self.attempted = self.violations = 0
        self.stop: Counter[str] = Counter()
        self.status: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.columns: dict[str, array[float]] = {}
        self._row: dict[str, float] = {}

    def add(self, trajectory: Trajectory) -> None:
        """Counts one trajectory of the question at hand."""
        self.n += 1
        self.stop[trajectory.stop or "unfinished"] += 1
        for use in trajectory.uses:
            self.attempted += 1
            self.status[use.status] += 1
            if use.executed:
                self.calls[use.name] += 1
        violations = (trajectory.judge or {}).get("format")
        if isinstance(violations, list):
            self.violations += len(violations)
        if trajectory.stop == "error":
            self.errors += 1
            return
        self.graded += trajectory.correct is not None
        for name, value, weight in _values(trajectory):
            self._row[name] = self._row.get(name, 0.0) + value
            self._row[name + "/n"] = self._row.get(name + "/n", 0.0) + weight

    def close(self) -> None:
        """Ends the question: its row is written, zeros where it had nothing."""
        for name in self._row.keys() - self.columns.keys():
            self.columns[name] = array("d", bytes(8 * self.rows))
        for name, column in self.columns.items():
            column.append(self._row.get(name, 0.0))
        self.rows += 1
        self._row.clear()

    def result(self, seed: int, k: Sequence[int]) -> dict[str, Any]:
        """The shape that `measure` describes, for this slice."""
        return {
            "n": self.n,
            "questions": self.rows,
            "graded": self.graded,
            "ungraded": self.n - self.graded - self.errors,
            "errors": self.errors,
            "metrics": self._metrics(seed, k),
            "counts": {
                "stop": dict(sorted(self.stop.items())),
                "status": dict(sorted(self.status.items())),
                "calls": dict(sorted(self.calls.items())),
                "attempted": self.attempted,
                "format_violations": self.violations,
            },
        }

    def _metrics(self, seed: int, k: Sequence[int]) -> dict[str, dict[str, float | None]]:
        tools = [f"tc.{name}" for name in sorted(self.calls) if f"tc.{name}" in self.columns]
        ratios = {}
        for name in (*NAMES[:4], *tools, *NAMES[4:], *COSTS):
            weights = self._column("tc/n" if name in tools else name + "/n")
            # A question without calls is no less a cluster of tp: its correct answers count.
            there = self._column("correct/n") if name == "tp" else weights
            ratios[name] = (self._column(name), weights, there > 0)
        sizes, solved = self._column("correct/n"), self._column("solved")
        smallest = int(min(sizes[sizes > 0], default=1))
        for size in k or [1 << bit for bit in range(smallest.bit_length())]:
            there = sizes > 0
            if size > smallest:
                there = there & False
            ratios[f"pass@{size}"] = (_pass_at(sizes, solved, size) * there, there * 1.0, there)
        return _intervals(ratios, self.rows, seed)

    def _column(self, name: str) -> Any:
        import numpy as np

        column = self.columns.get(name)
        return np.zeros(self.rows) if column is None else np.array(column)


def _values(trajectory: Trajectory) -> Iterator[tuple[str, float, float]]:
    """(column, value, weight) of each sum that this trajectory enters (formulas: SPEC 8)."""
    judge = trajectory.judge or {}
    for name in ("em", "f1"):
        if isinstance(judge.get(name), (int, float)) and math.isfinite(judge[name]):
            yield name, float(judge[name]), 1
    if isinstance(judge.get("redundant"), bool):
        yield "conciseness", float(not judge["redundant"]), 1
    correct, tokens = trajectory.correct, trajectory.model_tokens
    if not trajectory.segments and trajectory.stop is None and correct is None:
        return  # not begun: zero calls would be no measurement
    executed = [use for use in trajectory.uses if use.executed]
    yield "tc", len(executed), 1
    for use in executed:
        yield f"tc.{use.name}", 1, 0
    yield "seconds", sum(use.seconds for use in executed), 1
    if trajectory.segments and tokens is not None:
        yield "model_tokens", tokens, 1
    parts = [part.token_ids for part in trajectory.segments if part.role == "tool"]
    if trajectory.segments and None not in parts:
        yield "tool_tokens", sum(len(ids) for ids in parts if ids is not None), 1
    if correct is None:
        return
    wrong = sum(use.status != "ok" for use in executed)
    yield "correct", correct, 1
    yield "solved", float(correct >= 1), 1
    yield "tp", correct, len(executed)
    yield "effi", correct / max(len(executed), 1), 1
    yield "successful_execution", correct / max(wrong, 1), 1
    yield "successful_execution_plus1", correct / (1 + wrong), 1
    if tokens:
        yield "reasoning_length", 1000 * correct / tokens, 1


def _pass_at(sizes: Any, solved: Any, k: int) -> Any:
    """1 - C(n-c, k) / C(n, k) per question; n graded samples, c of them wholly correct (SPEC 8).

    Only good where n >= k.
    """
    import numpy as np

    failed = np.ones(len(sizes))
    for i in range(min(k, int(max(sizes, default=0)))):
        failed *= np.clip(sizes - solved - i, 0, None) / np.maximum(sizes - i, 1)
    return 1 - failed


def _intervals(
    ratios: dict[str, tuple[Any, Any, Any]], rows: int, seed: int
) -> dict[str, dict[str, float | None]]:
    """Ratio, 95 % interval and standard error of each (values, weights, there), by question.

    stderr = sqrt(Q/(Q-1) * sum_q (v_q - R w_q)^2) / sum w, the questions being the clusters. The
    interval: 2.5 and 97.5 % points of the ratio on resampled questions; null with one question.
    """
    import numpy as np

    draws = None
    if 1 < rows <= BOOTSTRAP_QUESTIONS:
        generator = np.random.default_rng(stable_seed("metrics", seed))
        draws = generator.multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES).astype(float)
    out: dict[str, dict[str, float | None]] = {}
    for name, (values, weights, there) in ratios.items():
        entry: dict[str, float | None] = dict.fromkeys(("mean", "low", "high", "stderr"))
        out[name] = entry
        weight, clusters = float(weights.sum()), int(there.sum())
        if not weight:
            continue
        mean = entry["mean"] = float(values.sum()) / weight
        if clusters < 2:
            continue
        spread = float(((values - mean * weights) ** 2).sum())
        error = entry["stderr"] = math.sqrt(clusters / (clusters - 1) * spread) / weight
        if draws is None:
            top = 1.0 if name in (*UNIT, *SUCCESS) or name.startswith("pass@") else math.inf
            entry["low"] = max(mean - 1.959964 * error, 0.0)
            entry["high"] = min(mean + 1.959964 * error, top)
            continue
        above, below = draws @ values, draws @ weights
        low, high = np.percentile(above[below > 0] / below[below > 0], [2.5, 97.5])
        entry["low"], entry["high"] = float(low), float(high)
    return out


def _field(trajectory: Trajectory, name: str) -> Any:
    """The value of `name`, looked up in the record, `meta`, `made` and the foreign keys."""
    if name in _FIELDS:
        return getattr(trajectory, name)
    for place in (trajectory.meta, trajectory.made or {}, trajectory.extra):
        if name in place:
            return place[name]
    return _ABSENT


def _show(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "null" if value is _ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _count_rows(part: dict[str, Any]) -> dict[str, int]:
    """The counts of one result, flat: `stop.answer`, `status.ok`, `calls.python`."""
    rows = {key: part[key] for key in ("n", "questions", "graded", "ungraded", "errors")}
    for key, value in part["counts"].items():
        if isinstance(value, dict):
            rows.update({f"{key}.{name}": count for name, count in value.items()})
        else:
            rows[key] = value
    return rows
