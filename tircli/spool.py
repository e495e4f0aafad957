"""Records that can be read a second time, group by group, with an offset a group in memory.

A regular file is read again where it lies; stdin, pipes and devices are copied to a temporary file
(in TMPDIR) as they pass.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import BinaryIO

from tircli import jsonl
from tircli.checks import from_json
from tircli.records import Group, InputError, RecordError, Trajectory


class Spool:
    """The records of `source`, to be read once by `groups` and then again by `group_at`."""

    def __init__(self, source: str) -> None:
        self._name = "stdin" if source == "-" else source
        self._exit = ExitStack()
        self._stream = self._exit.enter_context(jsonl.opened(source))
        self._state = os.fstat(self._stream.fileno())
        self._copy: BinaryIO | None = None
        if source == "-" or not stat.S_ISREG(self._state.st_mode):
            copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
            self._copy = self._exit.enter_context(copy)
        self._refused: set[int] = set()
        self._offset = self._end = 0
        self._starts: deque[int] = deque()

    def groups(
        self, skip: jsonl.Skip | None, warn: Callable[[str], None]
    ) -> Iterator[tuple[int, Group]]:
        """`(offset, group)` of every group, as `jsonl.read` and `jsonl.groups` give them."""

        def note(error: RecordError) -> None:
            assert skip is not None
            self._refused.add(self._offset)
            skip(error)

        lines = jsonl.numbered(self._lines(), self._name)
        trajectories = self._marked(jsonl.parsed(lines, note if skip else None))
        for group in jsonl.groups(trajectories, warn):
            yield self._starts.popleft(), group

    def _lines(self) -> Iterator[bytes]:
        for line in self._stream:
            self._offset, self._end = self._end, self._end + len(line)
            if self._copy is not None:
                try:
                    self._copy.write(line)
                except OSError as error:
                    raise InputError(
                        f"{tempfile.gettempdir()}: {error.strerror} while {self._name} was copied "
                        "there; set TMPDIR to a folder with room or give a file as input"
                    ) from None
            yield line

    def _marked(self, trajectories: Iterator[Trajectory]) -> Iterator[Trajectory]:
        """The same, the offset of each group's first line noted."""
        last = None
        for trajectory in trajectories:
            if trajectory.group != last:
                self._starts.append(self._offset)
                last = trajectory.group
            yield trajectory

    def group_at(self, offset: int) -> Group:
        """The group whose first line stands at `offset`. Raises InputError if the file changed."""
        stream = self._stream if self._copy is None else self._copy
        now = os.fstat(stream.fileno())
        if self._copy is None and (now.st_size, now.st_mtime_ns) != (
            self._state.st_size,
            self._state.st_mtime_ns,
        ):
            raise InputError(f"{self._name}: changed while it was read; run again")
        stream.seek(offset)
        group: Group = []
        while line := stream.readline():
            refused = offset in self._refused
            place = f"{self._name}, byte {offset}"
            offset += len(line)
            line = line.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
            if refused or not line:
                continue
            trajectory = from_json(jsonl.decode(line, place), place)
            if group and trajectory.group != group[0].group:
                break
            group.append(trajectory)
        return group

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()
