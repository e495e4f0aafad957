"""Slices: the trajectories that share a value of a field, for `--by`.

A field is a key of the record, of `meta`, `made`, or one that is not ours; a dotted name goes
down: `made.model`, `judge.name`, `parent.op`, `meta.source.page`. `calls` is the executed calls.
Several fields by comma are crossed: `task,made.model`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tircli.records import Group, InputError, Trajectory

MAX_SLICES = 1000
FIELDS = (
    *("id", "group", "question", "answer", "task", "sample", "k", "stop", "prediction"),
    *("correct", "judge", "reward", "reward_parts", "parent", "made", "error", "meta", "calls"),
)
ABSENT: Any = object()
Part = TypeVar("Part")


def value_of(trajectory: Trajectory, field: str) -> Any:
    """The value of `field`; ABSENT if the record has none."""
    if field in FIELDS:
        value = getattr(trajectory, field)
        return ABSENT if value is None else value
    for place in (trajectory.meta, trajectory.made or {}, trajectory.extra):
        if field in place:
            return place[field]
    head, dot, rest = field.partition(".")
    value = value_of(trajectory, head) if dot else ABSENT
    while dot and isinstance(value, dict):
        if rest in value:
            return value[rest]
        head, dot, rest = rest.partition(".")
        value = value.get(head, ABSENT)
    return ABSENT


def show(value: Any) -> str:
    """`value` as it stands in the name of a slice."""
    if isinstance(value, str):
        return value
    return "null" if value is ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)


def name_of(trajectory: Trajectory, field: str) -> str:
    """The slice that the trajectory is in: `task=math`, or `task=math,made.model=x`."""
    return ",".join(f"{part}={show(value_of(trajectory, part))}" for part in field.split(","))


class Slices(Generic[Part]):
    """The parts of every field of `by`, made by `make` when a value is first seen."""

    def __init__(self, by: Sequence[str], make: Callable[[], Part]) -> None:
        self._fields = [(name, name.split(",")) for name in by]
        self._make = make
        self._parts: list[dict[str, Part]] = [{} for _ in by]
        self._found: set[str] = set()
        self._any = False

    def of(self, group: Group) -> Iterator[tuple[Part, Group]]:
        """Each part that the group touches, with its members of the group."""
        for (name, fields), parts in zip(self._fields, self._parts, strict=True):
            members: dict[str, Group] = {}
            for trajectory in group:
                members.setdefault(self._name(trajectory, fields), []).append(trajectory)
            self._any = self._any or bool(group)
            for value, found in members.items():
                if value not in parts:
                    if len(parts) == MAX_SLICES:
                        raise InputError(f"by {name}: over {MAX_SLICES} values; give another field")
                    parts[value] = self._make()
                yield parts[value], found

    def _name(self, trajectory: Trajectory, fields: list[str]) -> str:
        shown = []
        for field in fields:
            value = value_of(trajectory, field)
            if value is not ABSENT:
                self._found.add(field)
            shown.append(f"{field}={show(value)}")
        return ",".join(shown)

    def sorted(self) -> Iterator[tuple[str, Part]]:
        """`(field=value, part)`, field by field, values in order. Raises InputError.

        A field that no record has is the user's mistake.
        """
        for _, fields in self._fields:
            for field in fields:
                if self._any and field not in self._found:
                    known = ", ".join(FIELDS)
                    raise InputError(
                        f"by {field}: no record has it; give one of {known}, a key of meta or "
                        "made, or a dotted name such as made.model"
                    )
        for parts in self._parts:
            yield from sorted(parts.items())
