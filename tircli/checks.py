"""The check of a record: a decoded line becomes a trajectory, or a message that says what to do."""

from __future__ import annotations

import math
import sys
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
_RECORD_KEYS = frozenset(
    "schema id group sample k question answer task stop prediction correct judge reward "
    "reward_parts parent made error meta segments".split()
)
_SEGMENT_KEYS = frozenset(("role", "text", "token_ids", "logprobs", "tool", "why"))
_TOOL_KEYS = frozenset(
    "name input output status seconds queued call_tokens confidence trusted".split()
)
_GREATEST = sys.float_info.max


def from_json(record: object, place: str = "record") -> Trajectory:
    """The trajectory that `record` (a decoded line) describes, all invariants checked.

    `place` (`file:line`) opens every message. Raises RecordError.
    """
    if not isinstance(record, dict):
        kind = {list: "a list", str: "a string", type(None): "null"}.get(type(record), "a number")
        raise RecordError(f"{place}: the line is {kind}; write one JSON object a line")
    schema = record.get("schema", SCHEMA)
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise RecordError(f'{place}: "schema" is {schema!r}; write {SCHEMA} or leave it out')
    if schema > SCHEMA:
        raise RecordError(
            f"{place}: schema {schema} is newer than this tir reads ({SCHEMA}); upgrade tircli"
        )
    used_question, question = _question(record, place)
    used_answer, answer = _first(record, "answer")
    answer = _answer(answer, place)
    identity = _text(record, "id", place, number=True)
    group = _text(record, "group", place, number=True)
    if identity == "" or group == "":
        key = "id" if identity == "" else "group"
        raise RecordError(f'{place}: "{key}" is empty; give a name or leave it out')
    identity = identity or group or f"q-{stable_seed(question, answer):016x}"
    task = _text(record, "task", place) or ("qa" if isinstance(answer, list) else "math")
    extra = _extra(record, _RECORD_KEYS)
    if extra:
        extra.pop(used_question, None)
        extra.pop(used_answer, None)
    trajectory = Trajectory(
        id=identity,
        group=group or identity,
        question=question,
        answer=answer,
        task=_choice(task, "task", TASKS, place),
        sample=_count(record, "sample", place),
        k=_count(record, "k", place),
        stop=_choice(_text(record, "stop", place), "stop", STOPS, place),
        prediction=_text(record, "prediction", place),
        correct=_number(record, "correct", place, 0.0, 1.0),
        judge=_object(record, "judge", place),
        reward=_number(record, "reward", place),
        reward_parts=_object(record, "reward_parts", place),
        parent=_object(record, "parent", place),
        made=_object(record, "made", place),
        error=_object(record, "error", place),
        meta=_object(record, "meta", place) or {},
        segments=_segments(record.get("segments"), place),
        extra=extra,
    )
    if trajectory.stop is None and trajectory.prediction is not None and trajectory.segments:
        raise RecordError(f'{place}: a prediction but no "stop"; drop one of the two')
    return trajectory


def _first(record: Json, name: str) -> tuple[str, Any]:
    """`name` or the first of its aliases that is there, and its value."""
    if name in record:
        return name, record[name]
    for key in _ALIASES[name]:
        if key in record:
            return key, record[key]
    return name, None


def _question(record: Json, place: str) -> tuple[str, str]:
    key, value = _first(record, "question")
    if value is None:
        known = ", ".join(f'"{key}"' for key in ("question", *_ALIASES["question"]))
        raise RecordError(f"{place}: no question; give one of {known}")
    if not isinstance(value, str) or not value.strip():
        raise RecordError(f'{place}: "question" is {value!r}; write a non-empty string')
    return key, value


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


def _text(record: Json, key: str, place: str, *, number: bool = False) -> str | None:
    value = record.get(key)
    if number and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is not None and not isinstance(value, str):
        raise RecordError(f'{place}: "{key}" is {value!r}; write a string')
    return value


def _choice(value: Any, key: str, choices: tuple[str, ...], place: str) -> Any:
    if value is not None and value not in choices:
        raise RecordError(f'{place}: "{key}" is {value!r}; write one of {", ".join(choices)}')
    return value


def _count(record: Json, key: str, place: str) -> int | None:
    value = record.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise RecordError(f'{place}: "{key}" is {value!r}; write a whole number, 0 or more')
    return value


def _number(
    record: Json, key: str, place: str, low: float = -math.inf, high: float = math.inf
) -> float | None:
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool):
        value = float(value)
    # A whole number beyond all floats fails the comparison with the limits, not the conversion.
    if not isinstance(value, (int, float)) or not max(low, -_GREATEST) <= value <= min(
        high, _GREATEST
    ):
        span = "a finite number" if low == -math.inf else f"a number from {low:g} to {high:g}"
        raise RecordError(f'{place}: "{key}" is {value!r:.60}; write {span} or null')
    return float(value)


def _object(record: Json, key: str, place: str) -> Json | None:
    value = record.get(key)
    if value is not None and not isinstance(value, dict):
        raise RecordError(f'{place}: "{key}" is {value!r}; write an object or null')
    return value


def _segments(value: Any, place: str) -> list[Segment]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise RecordError(f'{place}: "segments" is {value!r:.60}; write a list of objects')
    segments: list[Segment] = []
    try:
        for item in value:
            segments.append(_segment(item))
    except RecordError as error:
        # The place is put together for a bad segment alone: it would cost more than the check.
        raise RecordError(f"{place}: segments[{len(segments)}]{error}") from None
    for i, segment in enumerate(segments):
        if (segment.role == "prompt") != (i == 0):
            what = "is not a prompt" if i == 0 else "is a second prompt"
            raise RecordError(f"{place}: segments[{i}] {what}; exactly the first one must be")
    return segments


def _segment(value: Any) -> Segment:
    """The segment; messages begin after its place."""
    if not isinstance(value, dict):
        raise RecordError(f" is {value!r:.60}; write an object")
    get = value.get
    role, text, tool, why = get("role"), get("text"), get("tool"), get("why")
    if role not in ROLES:
        raise RecordError(f': "role" is {role!r}; write one of {", ".join(ROLES)}')
    if not isinstance(text, str):
        raise RecordError(f': "text" is {text!r:.60}; write a string')
    ids = _ids(get("token_ids"))
    logprobs = _logprobs(get("logprobs"), ids)
    if (tool is not None) != (role == "tool"):
        remedy = "add it" if role == "tool" else "only a tool segment has one"
        raise RecordError(f': role {role} and "tool" {tool!r:.60}; {remedy}')
    if why is not None and not isinstance(why, str):
        raise RecordError(f': "why" is {why!r:.60}; write a string')
    use = None if tool is None else _tool_use(tool)
    return Segment(role, text, ids, logprobs, use, why, _extra(value, _SEGMENT_KEYS))


def _extra(value: Json, known: frozenset[str]) -> Json:
    """The keys that are not ours."""
    if value.keys() <= known:
        return {}
    return {key: item for key, item in value.items() if key not in known}


def _ids(value: Any) -> list[int] | None:
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
        raise RecordError(f': "token_ids" is {value!r:.60}; write a list of whole numbers')
    return value  # type: ignore[no-any-return]


def _logprobs(value: Any, ids: list[int] | None) -> list[float] | None:
    if value is None:
        return None
    try:
        good = isinstance(value, list) and math.isfinite(sum(value))
    except (TypeError, OverflowError):
        good = False
    if not good:
        raise RecordError(f': "logprobs" is {value!r:.60}; write a list of finite numbers')
    if ids is None or len(value) != len(ids):
        count = "no" if ids is None else len(ids)
        raise RecordError(
            f": {len(value)} logprobs for {count} token_ids; drop both or give one for each"
        )
    return value  # type: ignore[no-any-return]


def _tool_use(value: Any) -> ToolUse:
    if not isinstance(value, dict):
        raise RecordError(f".tool is {value!r:.60}; write an object")
    get = value.get
    name, source, output = get("name"), get("input"), get("output")
    if not (isinstance(name, str) and isinstance(source, str) and isinstance(output, str)):
        texts = {"name": name, "input": source, "output": output}
        key, text = next((k, v) for k, v in texts.items() if not isinstance(v, str))
        found = f'no "{key}"' if text is None else f'"{key}" is {text!r:.60}'
        raise RecordError(f".tool: {found}; write a string")
    span, trusted = get("call_tokens"), get("trusted")
    if span is not None and not (
        isinstance(span, list) and len(span) == 2 and all(isinstance(i, int) for i in span)
    ):
        raise RecordError(f'.tool: "call_tokens" is {span!r}; write [start, end]')
    if trusted not in (None, True, False):
        raise RecordError(f'.tool: "trusted" is {trusted!r}; write true, false or null')
    status = get("status")
    if status is None:
        status = "ok"
    elif status not in STATUSES:
        choices = ", ".join(STATUSES)
        raise RecordError(f'.tool: "status" is {status!r}; write one of {choices}')
    confidence = get("confidence")
    if confidence is not None and not isinstance(confidence, dict):
        raise RecordError(f'.tool: "confidence" is {confidence!r}; write an object or null')
    return ToolUse(
        name=name,
        input=source,
        output=output,
        status=status,
        seconds=_number(value, "seconds", ".tool", 0.0) or 0.0,
        queued=_number(value, "queued", ".tool", 0.0) or 0.0,
        call_tokens=span,
        confidence=confidence,
        trusted=trusted,
        extra=_extra(value, _TOOL_KEYS),
    )
