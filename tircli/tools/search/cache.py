"""What was found before, by backend, digest, query and k: in memory, or in an SQLite file."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tircli.records import InputError

IN_MEMORY = 10_000
"""Queries remembered without a file; then the oldest go."""
Key = tuple[str, str, str, int]
"""Backend, digest, query, k."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_TABLE = "CREATE TABLE IF NOT EXISTS found (key BLOB PRIMARY KEY, query TEXT, hits BLOB, at REAL)"


class Cache:
    """Remembers hits; several processes may share the file `path`. Raises InputError.

    Faults never come here: only what a backend answered.
    """

    def __init__(self, path: str = "") -> None:
        self._path = path
        try:
            if path:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            # One thread at a time uses it, but not always the one that opened it.
            self._base = sqlite3.connect(
                path or ":memory:", timeout=30, isolation_level=None, check_same_thread=False
            )
        except (sqlite3.Error, OSError) as error:
            raise InputError(f"{path}: no search cache ({error}); name another file") from None
        try:
            if path:
                self._do("PRAGMA journal_mode=WAL")
                self._do("PRAGMA synchronous=NORMAL")
            self._do(_TABLE)
        except InputError:
            self._base.close()
            raise

    def get(self, key: Key) -> list[Any] | None:
        """The hits of `key`, as `[[id, title, text], score]`; None if it was never answered."""
        row = self._do("SELECT hits FROM found WHERE key = ?", _digest(key)).fetchone()
        return None if row is None else _decode(row[0])

    def put(self, key: Key, hits: Sequence[Any]) -> None:
        """Remember `hits`; an empty list is an answer too."""
        row = (_digest(key), key[2], _encode(hits), time.time())
        self._do("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", *row)
        if not self._path:
            last = "(SELECT max(rowid) FROM found)"
            self._do(f"DELETE FROM found WHERE rowid <= {last} - ?", IN_MEMORY)

    def _do(self, statement: str, *values: object) -> sqlite3.Cursor:
        try:
            return self._base.execute(statement, values)
        except sqlite3.Error as error:
            raise InputError(
                f"{self._path}: no search cache ({error}); name another file"
            ) from None

    def close(self) -> None:
        """Close the file."""
        self._base.close()


def _digest(key: Key) -> bytes:
    return hashlib.sha256(_encode(key)).digest()
