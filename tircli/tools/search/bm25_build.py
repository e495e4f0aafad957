"""Builds a bm25 index in bounded memory: sorted segments of the corpus, merged term by term.

A term is known by 64 bits of its hash, so that no list of words is kept anywhere: among ten
million words two share a hash with odds of 3 in a million, and would then count as one.
A segment that is done is not done again after a kill.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tircli.records import InputError
from tircli.tools.search import analysis, store
from tircli.tools.search.bm25_merge import MAX_TF, length_code, load, merge, run_starts, weights
from tircli.tools.search.corpus import Passage
from tircli.tools.search.folder import Show, Stale, write_meta

SEGMENT = 50_000
"""Passages that are sorted at once: about 100 MB of memory."""
VOCABULARY = 2_000_000
"""Words remembered with their numbers; then the memory starts anew."""


def term_hash(term: str) -> int:
    """The 64 bits that stand for `term`."""
    return int.from_bytes(hashlib.blake2b(term.encode(), digest_size=8).digest(), "little")


class _Vocabulary(dict[str, int]):
    """Words to the numbers of their terms, -1 for words that carry nothing; made on demand."""

    def __init__(self) -> None:
        super().__init__()
        self.terms: dict[str, int] = {}
        self.hashes = array("Q")

    def __missing__(self, word: str) -> int:
        term = analysis.term(word)
        number = -1 if term is None else self.terms.setdefault(term, len(self.terms))
        if term is not None and number == len(self.hashes):
            self.hashes.append(term_hash(term))
        self[word] = number
        return number


class Builder:
    """Builds an index in the folder `part`, going on with what an earlier run left there."""

    def __init__(self, part: Path, source: str) -> None:
        self.part, self.source = part, source
        self.segments: list[dict[str, Any]] = []
        state = part / "state.json"
        if state.exists():
            saved = json.loads(state.read_text("utf-8"))
            if (saved["analysis"], saved["segment"]) == (analysis.NAME, SEGMENT):
                self.segments = saved["segments"]

    def run(self, passages: Iterator[Passage], show: Show = lambda done: None) -> None:
        """Index all of `passages`. Raises InputError if they are not those of the earlier run."""
        digest, vocabulary = hashlib.sha256(), _Vocabulary()
        done, number, total = len(self.segments), 0, 0
        with open(self.part / "passages.jsonl", "ab") as stream:
            stream.truncate(self.segments[-1]["bytes"] if done else 0)
            while first := list(itertools.islice(passages, 1)):
                chunk = itertools.chain(first, itertools.islice(passages, SEGMENT - 1))
                if number < done:
                    for passage in chunk:
                        digest.update(store.line(passage))
                    if self.segments[number]["digest"] != digest.hexdigest():
                        raise Stale(
                            f"{self.part}: begun with another {self.source}; "
                            "add --overwrite to begin again"
                        )
                else:
                    count = self._segment(number, chunk, stream, digest, vocabulary)
                    self._save(digest.hexdigest(), count, stream)
                if len(vocabulary) > VOCABULARY:
                    vocabulary = _Vocabulary()
                total += self.segments[number]["passages"]
                number += 1
                show(total)
        if number < done:
            raise Stale(
                f"{self.part}: begun with a longer {self.source}; add --overwrite to begin again"
            )
        if not number:
            raise InputError(f"{self.source}: no passages; give a corpus with some")
        self._finish(digest.hexdigest())

    def _folder(self, number: int) -> Path:
        return self.part / "segments" / f"{number:05}"

    def _save(self, digest: str, passages: int, stream: BinaryIO) -> None:
        """Note a segment as done, after its passages are on disk."""
        stream.flush()
        os.fsync(stream.fileno())
        self.segments.append({"digest": digest, "passages": passages, "bytes": stream.tell()})
        saved = {"analysis": analysis.NAME, "segment": SEGMENT, "segments": self.segments}
        fresh = self.part / "state.json.new"
        fresh.write_text(json.dumps(saved), "utf-8")
        os.replace(fresh, self.part / "state.json")

    def _segment(
        self,
        number: int,
        chunk: Iterable[Passage],
        stream: BinaryIO,
        digest: Any,
        vocabulary: _Vocabulary,
    ) -> int:
        """Store the passages of `chunk` and write their postings by term; how many they are."""
        found, counts, sizes = array("i"), array("I"), array("I")
        ids, look_up = [], vocabulary.__getitem__
        for passage in chunk:
            text = store.line(passage)
            stream.write(text)
            digest.update(text)
            sizes.append(len(text))
            ids.append(passage.id.encode())
            words = analysis.words(passage.contents)
            found.extend(map(look_up, words))
            counts.append(len(words))
        docs = np.repeat(np.arange(len(ids), dtype="u8"), np.array(counts))
        terms = np.array(found)
        docs, terms = docs[terms >= 0], terms[terms >= 0]
        lengths = np.bincount(docs.astype("i8"), minlength=len(ids)).astype("u4")
        arrays = _postings(terms, docs, lengths, np.array(vocabulary.hashes, "u8"))
        arrays["docs"] += np.uint32(number * SEGMENT)
        arrays |= {"lengths": lengths, "sizes": np.array(sizes), "ids": np.array(ids)}
        folder = self._folder(number)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name, values in arrays.items():
            np.save(folder / f"{name}.npy", values)
        return len(ids)

    def _finish(self, digest: str) -> None:
        """Write what a search needs from the segments."""
        folders = [self._folder(i) for i in range(len(self.segments))]
        sizes = np.concatenate([[0], *load(folders, "sizes")])
        np.save(self.part / "offsets.npy", np.cumsum(sizes, dtype="<u8"))
        try:
            store.write_ranks(self.part, load(folders, "ids"), self.source)
        except InputError:
            (self.part / "state.json").unlink()  # No use to go on with this corpus.
            raise
        lengths = load(folders, "lengths")
        tokens = sum(int(part.sum(dtype="u8")) for part in lengths)
        filled = sum(int(np.count_nonzero(part)) for part in lengths)
        postings, terms = merge(self.part, folders, weights(tokens, filled))
        write_meta(
            self.part,
            {
                "backend": "bm25",
                "analysis": analysis.NAME,
                "digest": digest,
                "passages": len(sizes) - 1,
                "with_terms": filled,
                "tokens": tokens,
                "terms": terms,
                "postings": postings,
            },
        )
        (self.part / "state.json").unlink()


def _postings(
    terms: np.ndarray, docs: np.ndarray, lengths: np.ndarray, hashes: np.ndarray
) -> dict[str, np.ndarray]:
    """The postings of words `terms` in passages `docs`, sorted by the hashes of the terms."""
    order = np.argsort(hashes, kind="stable")
    place = np.empty(len(order), "u8")
    place[order] = np.arange(len(order), dtype="u8")
    keys = place[terms] << np.uint64(32)
    keys |= docs
    keys.sort()
    starts = run_starts(keys)
    keys, tf = keys[starts], np.diff(starts, append=len(keys))
    docs = keys.astype("u4")
    keys >>= np.uint64(32)
    runs = run_starts(keys)
    codes = np.array([length_code(length) for length in lengths.tolist()], "u2")
    return {
        "terms": hashes[order[keys[runs].astype("i8")]],
        "counts": np.diff(runs, append=len(keys)).astype("u4"),
        "docs": docs,
        "codes": np.minimum(tf, MAX_TF).astype("u2") << np.uint16(8) | codes[docs],
    }
