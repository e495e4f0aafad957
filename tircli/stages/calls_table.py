"""The file of `--calls-table`: the least calls of each question, kept from run to run."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tircli import jsonl
from tircli.papers.otc import LeastCalls
from tircli.records import InputError


class CallsTable:
    """The table in `path`, a JSON object of question and calls; without path it is not kept."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self.table = LeastCalls()
        if self._path is not None:
            if not self._path.parent.is_dir():
                raise InputError(f"--calls-table: {self._path.parent} is no directory")
            self.table = self._read(self._path)

    @staticmethod
    def _read(path: Path) -> LeastCalls:
        table = LeastCalls()
        try:
            table.load(jsonl.decode(path.read_bytes() if path.exists() else b"{}", str(path)))
        except OSError as error:
            raise InputError(f"--calls-table: {path}: {error.strerror}") from None
        except (ValueError, AttributeError) as error:
            raise InputError(
                f'--calls-table: {path}: {error}; write {{"question id": calls, ...}}'
            ) from None
        return table

    def save(self) -> None:
        """Merge the table into the file: other runs may have lowered it since it was read."""
        if self._path is None:
            return
        fresh = self._path.with_name(self._path.name + ".new")
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            # The folder is the lock: the file itself is replaced, so a lock on it would not hold.
            fcntl.flock(folder, fcntl.LOCK_EX)
            self.table.merge(self._read(self._path))
            with open(fresh, "wb") as stream:
                stream.write(jsonl.encode(self.table.state_dict()))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(fresh, self._path)
        except OSError as error:
            raise InputError(f"--calls-table: {self._path}: {error.strerror}") from None
        finally:
            os.close(folder)
