"""The keys that came before, held so small that the ids of millions of records fit."""

from __future__ import annotations

from array import array


class Seen:
    """Which keys came before, and at which line, in 12 bytes a slot: millions of ids fit.

    An open table of 64-bit hashes. Two different keys among n are taken for one with a chance
    of about n^2 / 2^65: 3e-8 for a million.
    """

    def __init__(self) -> None:
        self._codes, self._lines = array("q", bytes(8 << 10)), array("I", bytes(4 << 10))
        self._n = 0

    def add(self, key: str, line: int = 1) -> int:
        """0 if `key` is new, else the line where it was first."""
        first = self._put(hash(key) or 1, line)
        if not first:
            self._n += 1
            if 3 * self._n > 2 * len(self._codes):
                self._grow()
        return first

    def _put(self, code: int, line: int) -> int:
        codes = self._codes
        mask = len(codes) - 1
        slot = code & mask
        while codes[slot]:
            if codes[slot] == code:
                return self._lines[slot]
            slot = (slot + 1) & mask
        codes[slot], self._lines[slot] = code, line
        return 0

    def _grow(self) -> None:
        old = zip(self._codes, self._lines, strict=True)
        size = 2 * len(self._codes)
        self._codes, self._lines = array("q", bytes(8 * size)), array("I", bytes(4 * size))
        for code, line in old:
            if code:
                self._put(code, line)
