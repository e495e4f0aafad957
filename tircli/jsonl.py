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
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tircli.checks import from_json
from tircli.records import Group, InputError, Json, RecordError, Trajectory, to_json
from tircli.seen import Seen

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


@contextmanager
def opened(source: str) -> Iterator[BinaryIO]:
    """The bytes of `source`; `-` is stdin. Raises InputError."""
    if source == "-":
        if sys.stdin.isatty():
            raise InputError("stdin: a terminal; name an input file or pipe records in")
        yield sys.stdin.buffer
        return
    try:
        stream = open(source, "rb")  # noqa: SIM115 - closed below
    except FileNotFoundError:
        raise InputError(f"{source}: no such file; check the path") from None
    except IsADirectoryError:
        raise InputError(f"{source}: a directory; name a JSONL file") from None
    except PermissionError:
        raise InputError(f"{source}: not readable; check its permissions") from None
    with stream:
        yield stream


def lines(source: str) -> Iterator[tuple[str, bytes]]:
    """`(file:line, bytes)` of every line with content; `-` is stdin. Raises InputError."""
    with opened(source) as stream:
        yield from numbered(stream, "stdin" if source == "-" else source)


def numbered(stream: Iterable[bytes], name: str) -> Iterator[tuple[str, bytes]]:
    """`(name:line, bytes)` of every line of `stream` with content."""
    for number, line in enumerate(stream, 1):
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        line = line.strip(b" \t\r\n")
        if line:
            yield f"{name}:{number}", line


def read(source: str, skip: Skip | None = None) -> Iterator[Trajectory]:
    """The trajectories of `source`, checked; ids must be unique. Raises RecordError."""
    return parsed(lines(source), skip)


def parsed(
    numbered_lines: Iterable[tuple[str, bytes]], skip: Skip | None = None
) -> Iterator[Trajectory]:
    """The trajectories of `(name:line, bytes)` pairs, as `read`."""
    seen = Seen()
    for place, line in numbered_lines:
        try:
            trajectory = from_json(decode(line, place), place)
            name, _, number = place.rpartition(":")
            first = seen.add(trajectory.id, int(number))
            if first:
                raise RecordError(
                    f'{place}: id "{trajectory.id}" is also at {name}:{first}; '
                    'give each its own "id"'
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
    seen = Seen()
    group: Group = []
    for trajectory in trajectories:
        if group and trajectory.group != group[0].group:
            yield _checked(group, warn)
            group = []
        if not group and seen.add(trajectory.group):
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


def _output(path: str | Path, mode: str) -> BinaryIO:
    """`path` opened to be written. Raises InputError."""
    try:
        return open(path, mode)  # type: ignore[return-value]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; choose another output") from None


class Writer:
    """Writes records to stdout, to a device, or to a file that appears whole or not at all.

    With `resume` what is whole in `NAME.part` (or in NAME) stays, byte for byte. With `ordered`
    the place of every line is held in memory, so that `finish` can be given an order.
    """

    def __init__(
        self,
        target: str,
        stdout: BinaryIO | None = None,
        *,
        overwrite: bool = False,
        resume: bool = False,
        ordered: bool = False,
    ) -> None:
        self._ordered = ordered
        self.kept: set[str] = set()
        """Ids of the finished records of an earlier run, when resuming."""
        self.settings: list[tuple[Json | None, int | None]] = []
        """Each `(made, k)` that stands in a kept record, once."""
        self.path = None if target == "-" else Path(target)
        self._places: dict[str, tuple[int, int]] = {}  # id -> offset and length of its line
        self._end = 0
        if self.path is not None and self.path.is_dir():
            raise InputError(f"{target}: a directory; name a file with -o")
        if self.path is None or (self.path.exists() and not self.path.is_file()):
            # A device or a named pipe is written to, as stdout is: a rename would replace it.
            if resume:
                raise InputError("--resume: needs a file to resume; give one with -o")
            self._stream: BinaryIO = stdout or (
                own_stdout() if self.path is None else _output(target, "wb")
            )
            self.path = None
            return
        if self.path.exists() and not (overwrite or resume):
            raise InputError(f"{target}: exists; add --overwrite, --resume or choose another name")
        self._part = self.path.with_name(self.path.name + ".part")
        if self._part.exists() and not (overwrite or resume):
            raise InputError(f"{self._part}: an unfinished run; add --resume or --overwrite")
        self._stream = self._open(resume)

    def _open(self, resume: bool) -> BinaryIO:
        """The part file, locked, with what is kept; the old one stays until this one is whole."""
        assert self.path is not None
        with self._locked(self._part, "ab"):
            with self._reported():
                stream = self._locked(self._fresh, "wb")
                for source in (self._part, self.path) if resume else ():
                    self._keep(source, stream)
                stream.flush()
                os.fsync(stream.fileno())
                os.replace(self._fresh, self._part)
            return stream

    @property
    def _fresh(self) -> Path:
        return self._part.with_name(self._part.name + ".new")

    def _locked(self, path: Path, mode: str) -> BinaryIO:
        """`path` opened for this process alone. Raises InputError."""
        stream = _output(path, mode)
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another tir may have given its own file this name before the lock was ours.
            alone = os.fstat(stream.fileno()).st_ino == os.stat(path).st_ino
        except (BlockingIOError, FileNotFoundError):
            alone = False
        if not alone:
            stream.close()
            raise InputError(f"{self.path}: another tir is writing it; wait or rename")
        return stream

    def _keep(self, source: Path, stream: BinaryIO) -> None:
        """Copy the lines of `source` that are whole, without error and not kept yet."""
        if not source.exists():
            return
        with open(source, "rb") as old:
            for number, line in enumerate(old, 1):
                if not line.endswith(b"\n") or not line.strip():
                    continue  # The last line may be torn by a kill.
                place = f"{source}:{number}"
                trajectory = from_json(decode(line, place), place)
                failed = trajectory.error is not None or trajectory.stop == "error"
                if failed or trajectory.id in self.kept:
                    continue
                self.kept.add(trajectory.id)
                setting = (trajectory.made, trajectory.k)
                if setting not in self.settings:
                    self.settings.append(setting)
                self._append(stream, trajectory.id, line)

    def _append(self, stream: BinaryIO, identity: str, line: bytes) -> None:
        stream.write(line)
        self._places[identity] = (self._end, len(line))
        self._end += len(line)

    def record(self, identity: str) -> Trajectory:
        """The record called `identity`, one of `kept`, read back."""
        offset, length = self._places[identity]
        with open(self._part, "rb") as stream:
            stream.seek(offset)
            return from_json(decode(stream.read(length), str(self._part)), str(self._part))

    def write(self, trajectory: Trajectory) -> None:
        """Append one record and hand it to the reader at once. Raises InputError: no room."""
        line = encode(to_json(trajectory))
        with self._reported():
            if self._ordered and self.path is not None:
                self._append(self._stream, trajectory.id, line)
            else:
                self._stream.write(line)
            self._stream.flush()

    def finish(self, order: Iterable[str] | None = None) -> None:
        """Give the file its name; `order` (if `ordered`) lists the ids as they shall stand."""
        assert order is None or self._ordered, "an order needs the places of the lines"
        if self.path is None:
            return
        with self._reported():
            self._stream.flush()
            if order is not None:
                self._sort(order)
            os.fsync(self._stream.fileno())
            os.replace(self._part, self.path)

    def _sort(self, order: Iterable[str]) -> None:
        """Rewrite the part file in `order`, by offsets: one line in memory at a time."""
        with open(self._part, "rb") as old, open(self._fresh, "wb") as new:
            for identity in order:
                if identity in self._places:
                    offset, length = self._places[identity]
                    old.seek(offset)
                    new.write(old.read(length))
            new.flush()
            os.fsync(new.fileno())
        os.replace(self._fresh, self._part)

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """A failure of the disk becomes one line; what was whole before stays whole."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            where = "stdout" if self.path is None else self._part
            hint = "" if self.path is None else " and go on with --resume"
            raise InputError(f"{where}: {error.strerror}; make room{hint}") from error

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._stream.close()
        except BrokenPipeError:
            # The reader left with bytes unread; close again would only say so once more.
            raise BrokenPipeError(f"{self.path or 'stdout'}: the reader went away") from None
        except OSError:
            if kind is None:  # Else the bytes that do not fit have been reported.
                raise
