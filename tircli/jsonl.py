"""Streams of records: read, groups, writer, resume; the only module that opens record files.

A line ends at `\\n` and nowhere else (U+2028 is text); BOM and CRLF are accepted; NaN and
numbers too large are refused; half a surrogate pair becomes U+FFFD. While an output file is
being made it is `NAME.part`; it gets its name when it is whole.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tircli.records import Group, InputError, RecordError, Trajectory, from_json, to_json

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
Skip = Callable[[RecordError], None]
"""What to do with a bad line; None = raise."""


def own_stdout() -> BinaryIO:
    """Binary stdout for records alone: whatever else prints to fd 1 goes to stderr from here on."""
    sys.stdout.flush()
    records = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return records


def decode(line: bytes, place: str) -> Any:
    """The JSON value in `line`. Raises RecordError."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return _decode_slowly(line, place)


def _decode_slowly(line: bytes, place: str) -> Any:
    """As `decode`, for half surrogates and for a message that says what is wrong."""

    def refuse(name: str) -> float:
        raise RecordError(f"{place}: {name} is no JSON number; write null or a finite number")

    def number(text: str) -> float:
        value = float(text)
        return value if math.isfinite(value) else refuse(text)

    try:
        value = json.loads(line.decode("utf-8"), parse_constant=refuse, parse_float=number)
    except UnicodeDecodeError as error:
        raise RecordError(f"{place}: not UTF-8 at byte {error.start}; save as UTF-8") from None
    except RecursionError:
        raise RecordError(f"{place}: nested too deep; write one flat object a line") from None
    except json.JSONDecodeError as error:
        raise RecordError(
            f"{place}: not JSON at column {error.colno} ({error.msg}); write one object a line"
        ) from None
    return _whole_surrogates(value)


def _whole_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_whole_surrogates(key): _whole_surrogates(item) for key, item in value.items()}
    return value


def encode(record: Any) -> bytes:
    """One line of JSON for `record`, newline included; half surrogates become U+FFFD."""
    try:
        return _encode(record) + b"\n"
    except UnicodeEncodeError:
        return _encode(_whole_surrogates(record)) + b"\n"


def lines(source: str) -> Iterator[tuple[str, bytes]]:
    """`(file:line, bytes)` of every line with content; `-` is stdin. Raises InputError."""
    if source == "-":
        if sys.stdin.isatty():
            raise InputError("stdin: a terminal; name an input file or pipe records in")
        yield from _lines(sys.stdin.buffer, "stdin")
        return
    try:
        with open(source, "rb") as stream:
            yield from _lines(stream, source)
    except FileNotFoundError:
        raise InputError(f"{source}: no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{source}: a directory; name a JSONL file") from None
    except PermissionError:
        raise InputError(f"{source}: not readable; check its permissions") from None


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        line = line.strip(b" \t\r\n")
        if line:
            yield f"{name}:{number}", line


def read(source: str, skip: Skip | None = None) -> Iterator[Trajectory]:
    """The trajectories of `source`, checked; ids must be unique. Raises RecordError."""
    seen: dict[int, str] = {}
    for place, line in lines(source):
        try:
            trajectory = from_json(decode(line, place), place)
            first = seen.setdefault(hash(trajectory.id), place)
            if first != place:
                raise RecordError(
                    f'{place}: id "{trajectory.id}" is also at {first}; give each its own "id"'
                )
        except RecordError as error:
            if skip is None:
                raise
            skip(error)
        else:
            yield trajectory


def groups(
    trajectories: Iterable[Trajectory], warn: Callable[[str], None] = lambda text: None
) -> Iterator[Group]:
    """Trajectories of one question together. Raises RecordError if a group comes back."""
    done: set[int] = set()
    group: Group = []
    for trajectory in trajectories:
        if group and trajectory.group != group[0].group:
            done.add(hash(group[0].group))
            yield _checked(group, warn)
            group = []
        if not group and hash(trajectory.group) in done:
            raise RecordError(
                f'group "{trajectory.group}" comes back after others; '
                "sort the lines by group first, for example: jq -s -c 'sort_by(.group)[]'"
            )
        group.append(trajectory)
    if group:
        yield _checked(group, warn)


def _checked(group: Group, warn: Callable[[str], None]) -> Group:
    k = group[0].k
    if k is not None and len(group) < k:
        warn(f'group "{group[0].group}" has {len(group)} of its {k} samples')
    return group


class Writer:
    """Writes records to stdout, or to a file that appears whole or not at all.

    With `resume` what is whole in `NAME.part` (or in NAME) is kept and listed in `kept`.
    """

    def __init__(
        self,
        target: str,
        stdout: BinaryIO | None = None,
        *,
        overwrite: bool = False,
        resume: bool = False,
    ) -> None:
        self.kept: dict[str, Trajectory] = {}
        """Finished records of an earlier run, by id, when resuming."""
        self.path = None if target == "-" else Path(target)
        if self.path is None:
            if resume:
                raise InputError("--resume: needs a file to resume; give one with -o")
            self._stream: BinaryIO = stdout if stdout is not None else own_stdout()
            return
        if self.path.is_dir():
            raise InputError(f"{target}: a directory; name a file with -o")
        if self.path.exists() and not (overwrite or resume):
            raise InputError(f"{target}: exists; add --overwrite, --resume or choose another name")
        self._part = self.path.with_name(self.path.name + ".part")
        if self._part.exists() and not (overwrite or resume):
            raise InputError(f"{self._part}: an unfinished run; add --resume or --overwrite")
        self._stream = self._open(resume)

    def _open(self, resume: bool) -> BinaryIO:
        assert self.path is not None
        try:
            stream = open(self._part, "ab")  # noqa: SIM115 - closed by __exit__
        except OSError as error:
            raise InputError(f"{self._part}: {error.strerror}; choose another output") from None
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.close()
            raise InputError(f"{self.path}: another tir is writing it; wait or rename") from None
        if resume:
            for source in (self.path, self._part):
                self._keep(source)
        # The old bytes stay until the new file is whole: they are replaced through a rename.
        fresh = self._part.with_name(self._part.name + ".new")
        with open(fresh, "wb") as new:
            for trajectory in self.kept.values():
                new.write(encode(to_json(trajectory)))
            new.flush()
            os.fsync(new.fileno())
        os.replace(fresh, self._part)
        stream.close()
        stream = open(self._part, "ab")  # noqa: SIM115 - closed by __exit__
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return stream

    def _keep(self, source: Path) -> None:
        if not source.exists():
            return
        data = source.read_bytes()
        for line in data[: data.rfind(b"\n") + 1].split(b"\n"):
            if not line.strip():
                continue
            trajectory = from_json(decode(line, str(source)), str(source))
            if trajectory.error is None and trajectory.stop != "error":
                self.kept[trajectory.id] = trajectory

    def write(self, trajectory: Trajectory) -> None:
        """Append one record and hand it to the reader at once."""
        self._stream.write(encode(to_json(trajectory)))
        self._stream.flush()

    def finish(self, order: Iterable[str] | None = None) -> None:
        """Give the file its name; `order` lists the ids as they shall stand in it."""
        if self.path is None:
            return
        self._stream.flush()
        if order is not None:
            self._sort(list(order))
        os.fsync(self._stream.fileno())
        os.replace(self._part, self.path)

    def _sort(self, order: list[str]) -> None:
        """Rewrite the part file in `order`, by offsets: one line in memory at a time."""
        offsets: dict[str, tuple[int, int]] = {}
        start = 0
        with open(self._part, "rb") as old:
            for line in old:
                offsets[decode(line, str(self._part))["id"]] = (start, len(line))
                start += len(line)
            sorted_path = self._part.with_name(self._part.name + ".new")
            with open(sorted_path, "wb") as new:
                for identity in order:
                    if identity in offsets:
                        old.seek(offsets[identity][0])
                        new.write(old.read(offsets[identity][1]))
                new.flush()
                os.fsync(new.fileno())
        os.replace(sorted_path, self._part)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._stream.close()
        except BrokenPipeError:
            # The reader left with bytes unread; close again would only say so once more.
            raise BrokenPipeError(f"{self.path or 'stdout'}: the reader went away") from None
