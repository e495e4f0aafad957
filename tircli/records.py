"""The one record, the trajectory, with its parts and invariants; and the tree of errors.

TirError
 +- InputError      the user's to fix: where, what, what to do (exit code 2)
 |   +- RecordError     a line that is no valid record
 |   +- MissingExtra    a feature whose package is not installed
 +- EngineError     a model or server that failed: stops the run
 |   +- TurnError       one turn failed for good: ends its trajectory as `stop: "error"`
 +- ToolUnavailable  a tool that is down: never the model's fault
"""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
ROLES = ("prompt", "model", "tool", "hint")
TASKS = ("math", "qa")
STOPS = ("answer", "eos", "length", "calls", "turns", "seconds", "error")
EXECUTED = ("ok", "error", "timeout", "memory", "killed")
STATUSES = (*EXECUTED, "limit", "refused", "unavailable")

Json = dict[str, Any]


class TirError(Exception):
    """Any failure that tircli raises on purpose."""


class InputError(TirError):
    """Something the user can fix; the message says where, what, and what to do."""


class RecordError(InputError):
    """A line that is not a valid record."""


class MissingExtra(InputError):
    """A feature whose optional package is not installed."""


class EngineError(TirError):
    """A model or server failed in a way that no retry heals."""


class TurnError(EngineError):
    """One turn of one trajectory failed for good; the run goes on without it."""


class ToolUnavailable(TirError):
    """A tool could not run at all (server down, sandbox dead)."""


@dataclass(slots=True)
class ToolUse:
    """One call of a tool, as the loop carried it out."""

    name: str
    input: str
    output: str
    """What the tool said, before the protocol wrapped it."""
    status: str = "ok"
    """One of STATUSES; EXECUTED ones count as calls (SPEC 1.2)."""
    seconds: float = 0.0
    """Run time, without the time spent in a queue."""
    queued: float = 0.0
    """Seconds spent waiting for a free slot."""
    call_tokens: list[int] | None = None
    """`[start, end)` of the call in the token ids of the model segment before it."""
    confidence: Json | None = None
    """`max`, `sampled`: geometric means of the call's token probabilities; `tokens`: how many."""
    trusted: bool | None = None
    extra: Json = field(default_factory=dict)

    @property
    def executed(self) -> bool:
        """True if the tool ran, whatever came of it (SPEC 1.2)."""
        return self.status in EXECUTED


@dataclass(slots=True)
class Segment:
    """A stretch of a trajectory that one party wrote."""

    role: str
    """Who wrote the tokens: `prompt`, `model`, `tool` or `hint`."""
    text: str
    token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    """Nats of each sampled token, before temperature and top-p; model segments only."""
    tool: ToolUse | None = None
    """The call that this segment answers; tool segments only."""
    why: str | None = None
    extra: Json = field(default_factory=dict)


@dataclass(slots=True)
class Trajectory:
    """One question and all that was written about it; without segments it has not begun."""

    id: str
    group: str
    question: str
    answer: str | list[str] | None = None
    task: str = "math"
    sample: int | None = None
    k: int | None = None
    stop: str | None = None
    """Why it ended (one of STOPS); None = unfinished."""
    prediction: str | None = None
    correct: float | None = None
    """0..1; None = not judged."""
    judge: Json | None = None
    reward: float | None = None
    reward_parts: Json | None = None
    parent: Json | None = None
    made: Json | None = None
    error: Json | None = None
    meta: Json = field(default_factory=dict)
    segments: list[Segment] = field(default_factory=list)
    extra: Json = field(default_factory=dict)
    """Keys that are not ours, kept as they came."""

    @property
    def golds(self) -> list[str]:
        """The accepted answers; empty if the question has none."""
        if self.answer is None:
            return []
        return self.answer if isinstance(self.answer, list) else [self.answer]

    @property
    def uses(self) -> list[ToolUse]:
        """The attempted calls, in order."""
        return [segment.tool for segment in self.segments if segment.tool is not None]

    @property
    def calls(self) -> int:
        """Executed calls, failed ones included: the `m` of the papers (SPEC 1.2)."""
        return sum(use.executed for use in self.uses)

    @property
    def model_text(self) -> str:
        """All that the model wrote, and nothing else."""
        return "".join(segment.text for segment in self.segments if segment.role == "model")

    @property
    def model_tokens(self) -> int | None:
        """Tokens the model sampled; None if a model segment has no ids."""
        parts = [segment.token_ids for segment in self.segments if segment.role == "model"]
        return None if None in parts else sum(len(ids) for ids in parts if ids is not None)

    @property
    def token_ids(self) -> list[int] | None:
        """All ids, joined: exactly what the model saw; None if a segment has none."""
        joined: list[int] = []
        for segment in self.segments:
            if segment.token_ids is None:
                return None
            joined += segment.token_ids
        return joined


Group = list[Trajectory]
"""All samples of one question, standing together in the stream."""

_TRAJECTORY_KEYS = (
    *("id", "group", "sample", "k", "question", "answer", "task", "stop", "prediction"),
    *("correct", "judge", "reward", "reward_parts", "parent", "made", "error", "meta"),
)
_TOOL_KEYS = (
    *("name", "input", "output", "status", "seconds", "queued"),
    *("call_tokens", "confidence", "trusted"),
)
_ALWAYS = {"id", "group", "question", "answer", "task", "stop", "prediction", "correct", "judge"}


def stable_seed(*parts: object) -> int:
    """A 63-bit seed from `parts`, equal on every machine and in every run."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def stable_random(*parts: object) -> random.Random:
    """A generator of its own for one work item, seeded by `stable_seed`."""
    return random.Random(stable_seed(*parts))


def to_json(trajectory: Trajectory) -> Json:
    """The record as a dict in the fixed key order, `segments` last; our empty keys are left out."""
    record: Json = {"schema": SCHEMA}
    for key in _TRAJECTORY_KEYS:
        value = getattr(trajectory, key)
        if (value is not None and value != {}) or key in _ALWAYS:
            record[key] = value
    record.update(trajectory.extra)
    record["segments"] = [_segment_to_json(segment) for segment in trajectory.segments]
    return record


def _segment_to_json(segment: Segment) -> Json:
    record: Json = {"role": segment.role, "text": segment.text}
    if segment.token_ids is not None:
        record["token_ids"] = segment.token_ids
    if segment.logprobs is not None:
        record["logprobs"] = segment.logprobs
    if segment.tool is not None:
        use = segment.tool
        pairs = ((key, getattr(use, key)) for key in _TOOL_KEYS)
        record["tool"] = {key: value for key, value in pairs if value is not None} | use.extra
    if segment.why is not None:
        record["why"] = segment.why
    record.update(segment.extra)
    return record


def drop_tokens_from(trajectory: Trajectory, index: int) -> None:
    """Forget ids and log-probabilities from segment `index` on: whoever edits one must do this."""
    for segment in trajectory.segments[index:]:
        segment.token_ids = segment.logprobs = None
        if segment.tool is not None:
            segment.tool.call_tokens = None
