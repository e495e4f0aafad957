"""The postings of a bm25 index: their codes and weights, and the merge of sorted segments.

A posting is a passage's number and a code, `tf << 8 | length`, both as Lucene keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

MERGE = 4_000_000
"""Postings that are merged at once: about 150 MB of memory."""
K1, B = 0.9, 0.4
"""pyserini's, and so the papers'."""
MAX_TF = 255


def length_code(length: int) -> int:
    """Lucene's one byte for a passage's length: exact below 40, then four significant bits."""
    if length < 24:
        return length
    length = min(length - 24, 2**31 - 1)
    shift = max(length.bit_length() - 4, 0)
    return 24 + (length if length < 8 else ((length >> shift) & 7) | (shift + 1) << 3)


def decoded_length(code: int) -> int:
    """The length that `code` stands for."""
    if code < 24:
        return code
    code -= 24
    shift = (code >> 3) - 1
    return 24 + (code if shift < 0 else ((code & 7) | 8) << shift)


def weights(tokens: int, passages: int) -> np.ndarray:
    """BM25's share of a posting by its code, without the idf: from 0 to 1.

    `tf / (tf + K1 (1 - B + B length / average))`; `average` is `tokens` by `passages` (those that
    have any).
    """
    average = max(tokens, 1) / max(passages, 1)
    lengths = np.array([decoded_length(code) for code in range(256)])
    tf = np.arange(MAX_TF + 1)[:, None]
    share = tf / (tf + K1 * (1 - B + B * lengths[None, :] / average))
    flat: np.ndarray = share.astype("f4").ravel()
    return flat


def run_starts(values: np.ndarray) -> np.ndarray:
    """Where each run of equal values begins."""
    if not len(values):
        return np.zeros(0, "i8")
    return np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))


def load(folders: Sequence[Path], name: str) -> list[np.ndarray]:
    """The array `name` of each folder, mapped."""
    return [np.load(folder / f"{name}.npy", mmap_mode="r") for folder in folders]


def merge(target: Path, segments: Sequence[Path], share: np.ndarray) -> tuple[int, int]:
    """Write the postings of all segments into `target`, by term; how many postings and terms.

    Terms are hashes, spread evenly: equal ranges of them hold about equally many postings.
    """
    columns = {name: load(segments, name) for name in ("terms", "counts", "docs", "codes")}
    starts = [np.concatenate([[0], np.cumsum(part, dtype="i8")]) for part in columns["counts"]]
    total = sum(int(part[-1]) for part in starts)
    pieces = max(1, -(-total // MERGE))
    edges = np.array([i * 2**64 // pieces for i in range(1, pieces)], "u8")
    marks = [[0, *np.searchsorted(t, edges).tolist(), len(t)] for t in columns["terms"]]
    terms, sizes, bounds = [], [], []
    with (
        _Array(target / "docs.npy", "<u4", total) as docs,
        _Array(target / "codes.npy", "<u2", total) as codes,
    ):
        for piece in range(pieces):
            cuts = [slice(mark[piece], mark[piece + 1]) for mark in marks]
            spans = [slice(s[cut.start], s[cut.stop]) for s, cut in zip(starts, cuts, strict=True)]
            hashes, counts = _joined(columns["terms"], cuts), _joined(columns["counts"], cuts)
            order = np.argsort(hashes, kind="stable")
            gather = _gather(counts.astype("i8"), order)
            docs.append(_joined(columns["docs"], spans)[gather])
            ordered = _joined(columns["codes"], spans)[gather]
            codes.append(ordered)
            runs = run_starts(hashes[order])
            if len(runs):
                size = np.add.reduceat(counts[order].astype("i8"), runs)
                terms.append(hashes[order][runs])
                sizes.append(size)
                bounds.append(np.maximum.reduceat(share[ordered], np.cumsum(size) - size))
    np.save(target / "terms.npy", np.concatenate([np.zeros(0, "<u8"), *terms]))
    np.save(target / "bounds.npy", np.concatenate([np.zeros(0, "<f4"), *bounds]))
    ends = np.cumsum(np.concatenate([np.zeros(1, "i8"), *sizes]), dtype="<u8")
    np.save(target / "starts.npy", ends)
    return total, len(ends) - 1


class _Array:
    """A .npy file of known length, written piece by piece."""

    def __init__(self, path: Path, dtype: str, length: int) -> None:
        self._stream = open(path, "wb")  # noqa: SIM115 - closed by __exit__
        header = {"descr": dtype, "fortran_order": False, "shape": (length,)}
        np.lib.format.write_array_header_1_0(self._stream, header)

    def append(self, values: np.ndarray) -> None:
        """Write `values` behind what is there."""
        values.tofile(self._stream)

    def __enter__(self) -> _Array:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def _joined(parts: Sequence[np.ndarray], cuts: Sequence[slice]) -> np.ndarray:
    return np.concatenate([part[cut] for part, cut in zip(parts, cuts, strict=True)])


def _gather(sizes: np.ndarray, order: np.ndarray) -> np.ndarray:
    """Positions that put runs of `sizes`, standing one behind the other, into `order`."""
    begins = np.cumsum(sizes) - sizes
    ordered = sizes[order]
    ends = np.cumsum(ordered)
    places: np.ndarray = np.arange(sizes.sum())
    places += np.repeat(begins[order] - (ends - ordered), ordered)
    return places
