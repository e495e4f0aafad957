"""The passages of an index on disk: read by number, never loaded as a whole.

`passages.jsonl` holds `[id, title, text]` a line, `offsets.npy` where each begins, `ranks.npy`
the place of each passage's id among all ids, sorted as UTF-8: ties are broken by it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from tircli.records import InputError
from tircli.tools.search.corpus import Passage

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Passage).decode


def line(passage: Passage) -> bytes:
    """`passage` as it is stored."""
    return _encode(passage) + b"\n"


class Store:
    """Reads the passages in a folder."""

    def __init__(self, folder: Path) -> None:
        self.offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        self.ranks = np.load(folder / "ranks.npy", mmap_mode="r")
        self._file = os.open(folder / "passages.jsonl", os.O_RDONLY | os.O_CLOEXEC)

    def __len__(self) -> int:
        return len(self.ranks)

    def get(self, number: int) -> Passage:
        """The passage of that number. Threads may read at once: pread has no position."""
        start, end = int(self.offsets[number]), int(self.offsets[number + 1])
        return _decode(os.pread(self._file, end - start, start))

    def best(self, numbers: np.ndarray, scores: np.ndarray, k: int) -> list[tuple[int, float]]:
        """The `k` best of the scored numbers: highest score first, ties by id."""
        order = np.lexsort((self.ranks[numbers], -scores))[:k]
        return [(int(numbers[i]), float(scores[i])) for i in order]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def write_ranks(folder: Path, ids: Iterable[np.ndarray], source: str) -> None:
    """Write `ranks.npy` for `ids` (arrays of bytes). Raises InputError if two are equal."""
    joined = np.concatenate([np.zeros(0, "S1"), *ids])
    order = np.argsort(joined, kind="stable")
    same = np.flatnonzero(joined[order[1:]] == joined[order[:-1]])
    if len(same):
        twice = joined[order[same[0]]].decode()
        first, second = order[same[0]] + 1, order[same[0] + 1] + 1
        raise InputError(
            f'{source}: id "{twice}" is that of passages {first} and {second}; '
            "give each passage its own"
        )
    ranks = np.empty(len(joined), "<u4")
    ranks[order] = np.arange(len(joined), dtype="<u4")
    np.save(folder / "ranks.npy", ranks)
