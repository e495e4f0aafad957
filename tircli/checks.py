"""The check of a record: a decoded line becomes a trajectory, or a message that says what to do."""

from __future__ import annotations

import math
from typing import Any

from tircli.records import (
    ROLES,
    SCHEMA,
    STATUSES,
    STOPS,
    TASKS,
    Json,
    RecordError,
    Segment,
    ToolUse,
    Trajectory,
    stable_seed,
)

_ALIASES = {
    "question": ("problem", "input", "prompt"),
    "answer": ("golden_answers", "target", "gold"),
}


def from_json(record: object, place: str = "record") -> Trajectory:
    """The trajectory that `record` (a decoded line) describes, all invariants checked.

    `place` (`file:line`) opens every message. Raises RecordError.
    """
    if not isinstance(record, dict):
        kind = {list: "a list", str: "a string", type(None): "null"}.get(type(record), "a number")
        raise RecordError(f"{place}: the line is {kind}; write one JSON object a line")
    rest = dict(record)
    schema = rest.pop("schema", SCHEMA)
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise RecordError(f'{place}: "schema" is {schema!r}; write {SCHEMA} or leave it out')
    if schema > SCHEMA:
        raise RecordError(
            f"{place}: schema {schema} is newer than this tir reads ({SCHEMA}); upgrade tircli"
        )
    segments = rest.pop("segments", None)
    question = _question(rest, place)
    answer = _answer(_take(rest, "answer"), place)
    identity = _text(rest, "id", place, number=True)
    group = _text(rest, "group", place, number=True)
    if identity == "" or group == "":
        key = "id" if identity == "" else "group"
        raise RecordError(f'{place}: "{key}" is empty; give a name or leave it out')
    identity = identity or group or f"q-{stable_seed(question, answer):016x}"
    task = _text(rest, "task", place) or ("qa" if isinstance(answer, list) else "math")
    trajectory = Trajectory(
        id=identity,
        group=group or identity,
        question=question,
        answer=answer,
        task=_choice(task, "task", TASKS, place),
        sample=_count(rest, "sample", place),
        k=_count(rest, "k", place),
        stop=_choice(_text(rest, "stop", place), "stop", STOPS, place),
        prediction=_text(rest, "prediction", place),
        correct=_number(rest, "correct", place, 0.0, 1.0),
        judge=_object(rest, "judge", place),
        reward=_number(rest, "reward", place),
        reward_parts=_object(rest, "reward_parts", place),
        parent=_object(rest, "parent", place),
        made=_object(rest, "made", place),
        error=_object(rest, "error", place),
        meta=_object(rest, "meta", place) or {},
        segments=_segments(segments, place),
        extra=rest,
    )
    if trajectory.stop is None and trajectory.prediction is not None and trajectory.segments:
        raise RecordError(f'{place}: a prediction but no "stop"; drop one of the two')
    return trajectory


def _take(rest: Json, name: str) -> Any:
    """The value of `name` or of the first alias that is there; aliases used are removed."""
    for key in (name, *_ALIASES[name]):
        if key in rest:
            return rest.pop(key)
    return None


def _question(rest: Json, place: str) -> str:
    value = _take(rest, "question")
    if value is None:
        known = ", ".join(f'"{key}"' for key in ("question", *_ALIASES["question"]))
        raise RecordError(f"{place}: no question; give one of {known}")
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f'{place}: "question" is {value!r}; write a non-empty string')
    return value


def _answer(value: Any, place: str) -> str | list[str] | None:
    """The gold as text; numbers keep the digits they were written with."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and set(value) == {"target"}:
        return _answer(value["target"], place)
    if isinstance(value, list) and value:
        return [_one_answer(item, place) for item in value]
    return _one_answer(value, place)


def _one_answer(value: Any, place: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    raise RecordError(
        f'{place}: "answer" is {value!r}; write a string, a number or a list of these'
    )


def _text(rest: Json, key: str, place: str, *, number: bool = False) -> str | None:
    value = rest.pop(key, None)
    if number and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise RecordError(f'{place}: "{key}" is {value!r}; write a string')
    return value


def _choice(value: Any, key: str, choices: tuple[str, ...], place: str) -> Any:
    if value is not None and value not in choices:
        raise RecordError(f'{place}: "{key}" is {value!r}; write one of {", ".join(choices)}')
    return value


def _count(rest: Json, key: str, place: str) -> int | None:
    value = rest.pop(key, None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise RecordError(f'{place}: "{key}" is {value!r}; write a whole number, 0 or more')
    return value


def _number(
    rest: Json, key: str, place: str, low: float = -math.inf, high: float = math.inf
) -> float | None:
    value = rest.pop(key, None)
    if value is None:
        return None
    if isinstance(value, bool):
        value = float(value)
    if not isinstance(value, (int, float)) or not math.isfinite(value) or not low <= value <= high:
        span = "a finite number" if low == -math.inf else f"a number from {low:g} to {high:g}"
        raise RecordError(f'{place}: "{key}" is {value!r}; write {span} or null')
    return float(value)


def _object(rest: Json, key: str, place: str) -> Json | None:
    value = rest.pop(key, None)
    if value is not None and not isinstance(value, dict):
        raise RecordError(f'{place}: "{key}" is {value!r}; write an object or null')
    return value


def _segments(value: Any, place: str) -> list[Segment]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordError(f'{place}: "segments" is {value!r:.60}; write a list of objects')
    segments = [_segment(item, f"{place}: segments[{i}]") for i, item in enumerate(value)]
    for i, segment in enumerate(segments):
        if (segment.role == "prompt") != (i == 0):
            what = "is not a prompt" if i == 0 else "is a second prompt"
            raise RecordError(f"{place}: segments[{i}] {what}; exactly the first one must be")
    return segments


def _segment(value: Any, place: str) -> Segment:
    if not isinstance(value, dict):
        raise RecordError(f"{place} is {value!r:.60}; write an object")
    rest = dict(value)
    role, text = rest.pop("role", None), rest.pop("text", None)
    if role not in ROLES:
        raise RecordError(f'{place}: "role" is {role!r}; write one of {", ".join(ROLES)}')
    if not isinstance(text, str):
        raise RecordError(f'{place}: "text" is {text!r:.60}; write a string')
    ids = _ids(rest.pop("token_ids", None), place)
    logprobs = _logprobs(rest.pop("logprobs", None), ids, place)
    tool = rest.pop("tool", None)
    if (tool is not None) != (role == "tool"):
        remedy = "add it" if role == "tool" else "only a tool segment has one"
        raise RecordError(f'{place}: role {role} and "tool" {tool!r:.60}; {remedy}')
    use = None if tool is None else _tool_use(tool, f"{place}.tool")
    why = _text(rest, "why", place)
    return Segment(role, text, ids, logprobs, use, why, rest)


def _ids(value: Any, place: str) -> list[int] | None:
    # A sum is the fastest whole-list type check: text raises, a float anywhere gives a float.
    if value is None:
        return None
    try:
        good = (
            isinstance(value, list) and isinstance(sum(value), int) and min(value, default=0) >= 0
        )
    except TypeError:
        good = False
    if not good:
        raise RecordError(f'{place}: "token_ids" is {value!r:.60}; write a list of whole numbers')
    return value  # type: ignore[no-any-return]


def _logprobs(value: Any, ids: list[int] | None, place: str) -> list[float] | None:
    if value is None:
        return None
    try:
        good = isinstance(value, list) and math.isfinite(sum(value))
    except TypeError:
        good = False
    if not good:
        raise RecordError(f'{place}: "logprobs" is {value!r:.60}; write a list of finite numbers')
    if ids is None or len(value) != len(ids):
        count = "no" if ids is None else len(ids)
        raise RecordError(
            f"{place}: {len(value)} logprobs for {count} token_ids; drop both or give one for each"
        )
    return value  # type: ignore[no-any-return]


def _tool_use(value: Any, place: str) -> ToolUse:
    if not isinstance(value, dict):
        raise RecordError(f"{place} is {value!r:.60}; write an object")
    rest = dict(value)
    texts = {key: _text(rest, key, place) for key in ("name", "input", "output")}
    for key, text in texts.items():
        if text is None:
            raise RecordError(f'{place}: no "{key}"; write a string')
    span = rest.pop("call_tokens", None)
    if span is not None and not (
        isinstance(span, list) and len(span) == 2 and all(isinstance(i, int) for i in span)
    ):
        raise RecordError(f'{place}: "call_tokens" is {span!r}; write [start, end]')
    trusted = rest.pop("trusted", None)
    if trusted not in (None, True, False):
        raise RecordError(f'{place}: "trusted" is {trusted!r}; write true, false or null')
    return ToolUse(
        name=texts["name"] or "",
        input=texts["input"] or "",
        output=texts["output"] or "",
        status=_choice(_text(rest, "status", place) or "ok", "status", STATUSES, place),
        seconds=_number(rest, "seconds", place, 0.0) or 0.0,
        queued=_number(rest, "queued", place, 0.0) or 0.0,
        call_tokens=span,
        confidence=_object(rest, "confidence", place),
        trusted=trusted,
        extra=rest,
    )
