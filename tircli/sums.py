"""The sums of one question that every metric is a ratio of (SPEC 8), read from its trajectories.

The behaviour types of ET-Agent (SPEC 2.6), as far as records hold them:
- `redundant`: share with a redundant call, of those whose `judge.redundant` is true or false;
- `aborted`: share with an executed call whose status is not `ok`;
- `insufficient`: of the wrong ones that were continued with a hint (`parent.op` of another member
  begins with `hint`), the share with a continuation that is right;
- `erroneous`: share that is wrong and not known as insufficient.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from tircli.records import Group, Trajectory

SUMS = (
    *("begun", "graded", "graded_calls", "graded_em", "graded_f1", "graded_redundant"),
    *("graded_tokens", "hinted", "with_model_tokens", "with_tool_tokens"),
    *("correct", "solved", "em", "f1", "calls", "seconds", "model_tokens", "tool_tokens"),
    *("effi", "successful", "successful_plus1", "per_token"),
    *("concise", "redundant", "aborted", "rescued", "erroneous"),
)
WIDTH = len(SUMS)
RATIOS = {
    "em": ("em", "graded_em"),
    "f1": ("f1", "graded_f1"),
    "correct": ("correct", "graded"),
    "tc": ("calls", "begun"),
    "tp": ("correct", "graded_calls"),
    "effi": ("effi", "graded"),
    "conciseness": ("concise", "graded_redundant"),
    "successful_execution": ("successful", "graded"),
    "successful_execution_plus1": ("successful_plus1", "graded"),
    "reasoning_length": ("per_token", "graded_tokens"),
    "redundant": ("redundant", "graded_redundant"),
    "aborted": ("aborted", "begun"),
    "insufficient": ("rescued", "hinted"),
    "erroneous": ("erroneous", "graded"),
    "model_tokens": ("model_tokens", "with_model_tokens"),
    "tool_tokens": ("tool_tokens", "with_tool_tokens"),
    "seconds": ("seconds", "begun"),
}
"""Metric -> the two sums whose ratio it is."""
UNBOUNDED = ("tc", "tp", "reasoning_length", "model_tokens", "tool_tokens", "seconds")
"""The metrics that may be above 1."""
_EMPTY = dict.fromkeys(SUMS, 0.0)


class Reading(NamedTuple):
    """What the segments of one trajectory come to."""

    calls: int
    """Executed calls, by SPEC 1.2."""
    failed: int
    """Executed calls whose status is not `ok`."""
    seconds: float
    model_tokens: int | None
    tool_tokens: int | None
    tools: list[str]
    """The names of the executed calls."""
    statuses: list[str]
    """The status of every attempted call."""


def reading(trajectory: Trajectory) -> Reading:
    """One pass over the segments; tokens are None without segments, or if ids are missing."""
    failed, seconds = 0, 0.0
    model_tokens: int | None = 0 if trajectory.segments else None
    tool_tokens: int | None = model_tokens
    tools, statuses = [], []
    for segment in trajectory.segments:
        if segment.role == "model":
            if segment.token_ids is None:
                model_tokens = None
            elif model_tokens is not None:
                model_tokens += len(segment.token_ids)
        elif segment.tool is not None:
            use = segment.tool
            statuses.append(use.status)
            if use.executed:
                tools.append(use.name)
                seconds += use.seconds
                failed += use.status != "ok"
            if segment.token_ids is None:
                tool_tokens = None
            elif tool_tokens is not None:
                tool_tokens += len(segment.token_ids)
    return Reading(len(tools), failed, seconds, model_tokens, tool_tokens, tools, statuses)


def solved(trajectory: Trajectory) -> bool:
    """True if wholly correct: what pass@k, behaviour types and paired comparison count."""
    return trajectory.correct is not None and trajectory.correct >= 1


def rescues(group: Group) -> dict[str, bool]:
    """Id of each member that was continued with a hint -> whether a continuation is right."""
    found: dict[str, bool] = {}
    for trajectory in group:
        parent = trajectory.parent
        if parent and str(parent.get("op")).startswith("hint") and trajectory.correct is not None:
            name = str(parent.get("id"))
            found[name] = found.get(name, False) or solved(trajectory)
    return found


def begun(trajectory: Trajectory) -> bool:
    """False for a question that no model has touched: its zero calls are no measurement."""
    return (
        bool(trajectory.segments) or trajectory.stop is not None or trajectory.correct is not None
    )


class Row:
    """The sums of one question, filled trajectory by trajectory."""

    def __init__(self) -> None:
        self.sums = _EMPTY.copy()
        self.tools: dict[str, int] = {}

    def add(self, trajectory: Trajectory, read: Reading, rescued: bool | None = None) -> None:
        """Adds one trajectory without an error; `rescued`: see `rescues`, None if not tried."""
        sums = self.sums
        self._add_judge(trajectory)
        if not begun(trajectory):
            return
        sums["begun"] += 1
        sums["calls"] += read.calls
        sums["seconds"] += read.seconds
        sums["aborted"] += read.failed > 0
        for name in read.tools:
            self.tools[name] = self.tools.get(name, 0) + 1
        if read.model_tokens is not None:
            sums["with_model_tokens"] += 1
            sums["model_tokens"] += read.model_tokens
        if read.tool_tokens is not None:
            sums["with_tool_tokens"] += 1
            sums["tool_tokens"] += read.tool_tokens
        correct = trajectory.correct
        if correct is None:
            return
        sums["graded"] += 1
        sums["graded_calls"] += read.calls
        sums["correct"] += correct
        sums["effi"] += correct / (read.calls or 1)
        sums["successful"] += correct / (read.failed or 1)
        sums["successful_plus1"] += correct / (1 + read.failed)
        if read.model_tokens:
            sums["graded_tokens"] += 1
            sums["per_token"] += 1000 * correct / read.model_tokens
        if correct >= 1:
            sums["solved"] += 1
            return
        sums["erroneous"] += not rescued
        if rescued is not None:
            sums["hinted"] += 1
            sums["rescued"] += rescued

    def _add_judge(self, trajectory: Trajectory) -> None:
        details = trajectory.judge
        if not details:
            return
        for name in ("em", "f1"):
            value = details.get(name)
            if isinstance(value, (int, float)) and math.isfinite(value):
                self.sums[name] += value
                self.sums["graded_" + name] += 1
        redundant = details.get("redundant")
        if isinstance(redundant, bool):
            self.sums["graded_redundant"] += 1
            self.sums["redundant" if redundant else "concise"] += 1
