"""Trajectories as training examples, and examples as micro-batches.

An update reads `batch` trajectories. How they are cut into micro-batches, padded or packed, is a
matter of memory and speed alone: the loss is a sum over trained tokens, divided by their number
in the whole update, so that every cut gives the same gradient.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tircli.records import Trajectory, stable_random

IGNORED = -100
"""The label of a token that is not trained."""


@dataclass(frozen=True, slots=True)
class Example:
    """Token ids and, for each, whether the model learns to write it."""

    id: str
    ids: list[int]
    trained: list[bool]

    @property
    def tokens(self) -> int:
        """How many tokens are trained."""
        return sum(self.trained)


def roles(results: bool = False, hints: bool = False) -> frozenset[str]:
    """Whose tokens are trained: the model's, on request results (SPEC 6.1) and hints too."""
    return frozenset({"model", *["tool"] * results, *["hint"] * hints})


def example(
    trajectory: Trajectory, on: frozenset[str] = roles(), max_length: int | None = None
) -> Example:
    """The example of a trajectory whose segments all have ids.

    One that is longer than `max_length` loses whole segments from its end, and then those that
    lead to nothing trained. The very first token is never trained: nothing predicts it.
    """
    ids: list[int] = []
    trained: list[bool] = []
    end = 0
    for segment in trajectory.segments:
        more = segment.token_ids or []
        if max_length is not None and len(ids) + len(more) > max_length:
            break
        ids += more
        trained += [segment.role in on] * len(more)
        if segment.role in on and more:
            end = len(ids)
    trained[:1] = [False] * len(trained[:1])
    return Example(trajectory.id, ids[:end], trained[:end])


def plan(
    lengths: Sequence[int],
    *,
    epochs: float,
    batch: int,
    micro_batch: int,
    world: int = 1,
    packing: bool = False,
    seed: int = 0,
) -> list[list[int]]:
    """The micro-batches of a whole run, as indices; those of one moment on all ranks together.

    Trajectories stream in a new order each epoch, `batch` to an update, over the epochs' border;
    only the last update may be shorter. `len(plan)` is a multiple of `world`.
    """
    stream = _stream(len(lengths), seed)
    left = max(1, round(len(lengths) * epochs))
    micros: list[list[int]] = []
    while left >= world:
        update = [next(stream) for _ in range(min(batch, left))]
        left -= len(update)
        share = -(-len(update) // (micro_batch * world))  # micro-batches of one rank, rounded up
        count = world * min(share, len(update) // world)
        cut = _packed if packing else _alike
        micros += cut(update, lengths, count)
    return micros


def _stream(count: int, seed: int) -> Iterator[int]:
    epoch = 0
    while True:
        order = list(range(count))
        stable_random(seed, "epoch", epoch).shuffle(order)
        yield from order
        epoch += 1


def _alike(update: list[int], lengths: Sequence[int], count: int) -> list[list[int]]:
    """`count` cuts of near equal size, of like lengths each: little padding."""
    ordered = sorted(update, key=lambda i: lengths[i])
    edges = [len(ordered) * i // count for i in range(count + 1)]
    return [ordered[a:b] for a, b in itertools.pairwise(edges)]


def _packed(update: list[int], lengths: Sequence[int], count: int) -> list[list[int]]:
    """`count` cuts of near equal total length: the longest goes to the emptiest."""
    bins: list[tuple[int, int, list[int]]] = [(0, i, []) for i in range(count)]
    for index in sorted(update, key=lambda i: -lengths[i]):
        total, i, members = heapq.heappop(bins)
        members.append(index)
        # An empty bin is always filled first, even by examples of no length.
        heapq.heappush(bins, (total + max(lengths[index], 1), i, members))
    return [members for _, _, members in sorted(bins, key=lambda item: item[1])]


def collate(examples: Sequence[Example], packing: bool = False) -> dict[str, Any]:
    """Tensors of one micro-batch: rows padded on the right (B, T), or all in one row (1, T).

    No attention mask: a causal model never looks at what stands to the right, and in a packed
    row positions that start again at 0 tell samples apart. `keep` lists the positions whose next
    token is trained in any row; only there are logits needed.
    """
    import torch

    rows = [(e.ids, [i if t else IGNORED for i, t in zip(e.ids, e.trained, strict=True)])
            for e in examples]  # fmt: skip
    if packing:
        positions = [[p for ids, _ in rows for p in range(len(ids))]]
        rows = [([i for ids, _ in rows for i in ids], [x for _, labels in rows for x in labels])]
    else:
        positions = [list(range(max(len(ids) for ids, _ in rows)))] * len(rows)
    width = len(positions[0])
    labels = torch.tensor([row + [IGNORED] * (width - len(row)) for _, row in rows])
    return {
        "input_ids": torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows]),
        "position_ids": torch.tensor(positions),
        "labels": labels,
        "keep": (labels[:, 1:] != IGNORED).any(0).nonzero()[:, 0],
    }
