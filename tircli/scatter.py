"""Trajectories as points of a plane: t-SNE over TF-IDF of what the model wrote, or over vectors.

At most so many trajectories as asked for are held: those with the least hash of their id, so that
the choice is the same in every run, whatever the order.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from tircli.records import InputError, MissingExtra, Trajectory, stable_seed

LEAST = 5
"""With fewer trajectories there is nothing to see."""
WORDS = 20_000
DIMENSIONS = 50


def check(embedder: str | None) -> None:
    """Raises MissingExtra or InputError now, for what `Texts.map` would find out late."""
    _sklearn()
    if embedder is not None:
        from tircli.tools.search.dense import encoding

        encoding(embedder, None, None, None)


@dataclass
class Map:
    """Where each trajectory lies."""

    runs: list[str]
    run: Any
    """Index into `runs`, one a trajectory."""
    places: Any
    """(trajectories, 2)."""
    method: str
    """What the distances are of, in words."""

    @property
    def count(self) -> int:
        """How many trajectories are on the map."""
        return len(self.places)


class Texts:
    """The texts of at most `most` trajectories a run."""

    def __init__(self, most: int, seed: int = 0) -> None:
        self.most, self.seed = most, seed
        self._heaps: dict[str, list[tuple[int, str]]] = {}

    def add(self, run: str, trajectory: Trajectory) -> None:
        """Takes one trajectory, if its model wrote something."""
        heap = self._heaps.setdefault(run, [])
        text = trajectory.model_text
        if text.strip():
            item = (-stable_seed(self.seed, trajectory.id), text)
            if len(heap) < self.most:
                heapq.heappush(heap, item)
            elif item > heap[0]:
                heapq.heapreplace(heap, item)

    def map(self, embedder: str | None = None) -> Map:
        """The map, by TF-IDF, or by the encoder in the folder `embedder`. Raises InputError."""
        runs = sorted(name for name, heap in self._heaps.items() if heap)
        texts = [text for name in runs for _, text in sorted(self._heaps[name], reverse=True)]
        if len(texts) < LEAST:
            raise InputError(f"--tsne: {len(texts)} trajectories with text; it needs {LEAST}")
        run = np.repeat(np.arange(len(runs)), [len(self._heaps[name]) for name in runs])
        if embedder is None:
            vectors, method = _tf_idf(texts, self.seed), "TF-IDF (no embedding model was named)"
        else:
            vectors, method = _embedded(texts, embedder), f"vectors of {embedder}"
        return Map(runs, run, _tsne(vectors, self.seed), method)


def _tf_idf(texts: list[str], seed: int) -> Any:
    """(texts, DIMENSIONS or fewer), after a truncated singular value decomposition."""
    feature, decomposition, _ = _sklearn()
    vectoriser = feature.TfidfVectorizer(
        max_features=WORDS, sublinear_tf=True, token_pattern=r"\w+|[^\w\s]"
    )
    table = vectoriser.fit_transform(texts)
    size = min(DIMENSIONS, min(table.shape) - 1)
    if size < 2:
        return table.toarray()
    return decomposition.TruncatedSVD(size, random_state=seed).fit_transform(table)


def _embedded(texts: list[str], folder: str) -> Any:
    from tircli.tools.search.dense import Encoder, encoding

    return Encoder(encoding(folder, None, None, None)).passages(texts)


def _tsne(vectors: Any, seed: int) -> Any:
    manifold = _sklearn()[2]
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    varies = np.ptp(vectors, axis=0).any()
    start = "pca" if varies and min(vectors.shape) >= 2 else "random"
    model = manifold.TSNE(2, perplexity=perplexity, init=start, random_state=seed % (1 << 32))
    return model.fit_transform(np.asarray(vectors, dtype=np.float32))


def _sklearn() -> tuple[Any, Any, Any]:
    try:
        from sklearn import decomposition, manifold
        from sklearn.feature_extraction import text
    except ModuleNotFoundError:
        raise MissingExtra("--tsne: needs scikit-learn; pip install 'tircli[plot]'") from None
    return text, decomposition, manifold
