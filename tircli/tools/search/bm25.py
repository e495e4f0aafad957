"""BM25 over files on disk: pyserini's ranking, without Java, without loading the corpus.

Every posting of the query's terms is added up, at some nanoseconds each; the best are then looked
for among the passages of the rarer terms only, as far as the others cannot make up for these.
Scores are float32 sums in one order, so that every machine ranks alike; ties go by id.
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tircli.records import InputError
from tircli.tools.search import analysis
from tircli.tools.search.bm25_build import term_hash
from tircli.tools.search.bm25_merge import weights
from tircli.tools.search.folder import read_meta
from tircli.tools.search.searcher import Hit
from tircli.tools.search.store import Store

SLACK = 1 + 1e-5
"""Bounds are widened by this: sums of float32 are rounded."""


class _Postings(NamedTuple):
    """One term's postings and what they may give."""

    docs: np.ndarray
    codes: np.ndarray
    idf: np.float32
    """Times the count of the term in the query."""
    bound: float
    """No passage gets more from this term."""


class BM25:
    """Searches an index folder. Not for two threads at once. Raises InputError."""

    name = "bm25"

    def __init__(self, folder: Path) -> None:
        meta = read_meta(folder)
        if meta["analysis"] != analysis.NAME:
            raise InputError(f"{folder}: made with another analysis of words; make it again")
        self.digest: str = meta["digest"]
        try:
            self._store = Store(folder)
            # Plain views: slices of numpy's own memmap class cost ten times as much.
            arrays = [
                np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
                for name in ("terms", "starts", "bounds", "docs", "codes")
            ]
        except (OSError, ValueError) as error:
            raise InputError(f"{folder}: damaged ({error}); make the index again") from None
        self._terms, self._starts, self._bounds, self._docs, self._codes = arrays
        if len(self._docs) != meta["postings"] or len(self._store) != meta["passages"]:
            raise InputError(f"{folder}: damaged (sizes differ); make the index again")
        self._passages: int = meta["with_terms"]
        self._weights = weights(meta["tokens"], meta["with_terms"])
        self._scores = np.zeros(len(self._store), "f4")  # Zeros again after every search.

    def __len__(self) -> int:
        return len(self._store)

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """The best passages of each query; passages without any of its terms are never found."""
        return [self._search(query, k) for query in queries]

    def close(self) -> None:
        """Close the files."""
        self._store.close()

    def _search(self, query: str, k: int) -> list[Hit]:
        found = self._best(self._look_up(query), k)
        return [Hit(self._store.get(number), score) for number, score in found]

    def _look_up(self, query: str) -> list[_Postings]:
        """The postings of the query's terms, those that may give most first."""
        counts = Counter(analysis.terms(query))
        hashes = np.array([term_hash(term) for term in counts], "u8")
        places = np.searchsorted(self._terms, hashes)
        found = []
        for place, wanted, count in zip(places, hashes, counts.values(), strict=True):
            if place == len(self._terms) or self._terms[place] != wanted:
                continue
            start, end = int(self._starts[place]), int(self._starts[place + 1])
            df = end - start
            idf = math.log(1 + (self._passages - df + 0.5) / (df + 0.5)) * count
            found.append(
                _Postings(
                    self._docs[start:end].astype(np.intp),
                    self._codes[start:end],
                    np.float32(idf),
                    idf * float(self._bounds[place]) * SLACK,
                )
            )
        # The order is that of the query where bounds are equal: sums are the same everywhere.
        return sorted(found, key=lambda postings: -postings.bound)

    def _best(self, terms: list[_Postings], k: int) -> list[tuple[int, float]]:
        """Numbers and scores of the `k` best passages."""
        for term in terms:
            scores = self._scores.take(term.docs)
            scores += self._weights.take(term.codes) * term.idf
            self._scores[term.docs] = scores
        numbers, scores = self._candidates(terms, k)
        for term in terms:
            self._scores[term.docs] = 0
        return self._store.best(numbers, scores, k)

    def _candidates(self, terms: list[_Postings], k: int) -> tuple[np.ndarray, np.ndarray]:
        """Passages among which the `k` best are, and their scores.

        Terms that together give less than `k` passages have need not be looked through.
        """
        left = sum(term.bound for term in terms)
        found, threshold = [np.zeros(0, np.intp)], 0.0
        for term in terms:
            if left < threshold:
                break
            left -= term.bound
            scores = self._scores.take(term.docs)
            high = np.flatnonzero(scores >= threshold)
            found.append(term.docs[high])
            threshold = max(threshold, kth(scores[high], k))
        numbers = np.unique(np.concatenate(found))
        scores = self._scores.take(numbers)
        high = np.flatnonzero(scores >= max(threshold, kth(scores, k)))
        return numbers[high], scores[high]


def kth(scores: np.ndarray, k: int) -> float:
    """The `k`-th highest score, or 0 if there are fewer."""
    if len(scores) < k:
        return 0.0
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])
