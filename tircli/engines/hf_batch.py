"""The rows that the `hf` engine steps together: cache, masks, and a draw of its own for each."""

from __future__ import annotations

import inspect
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import DynamicLayer

from tircli.engines import Completion, Sampling
from tircli.records import EngineError


@dataclass(slots=True, eq=False)
class Row:
    """One request, waiting or in the batch."""

    prompt: list[int]
    sampling: Sampling
    room: int
    """Most tokens to sample."""
    future: Future[Completion] = field(default_factory=Future)
    ids: list[int] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    """`ids` that decode to text."""
    logprobs: list[float] = field(default_factory=list)
    tops: list[list[float]] = field(default_factory=list)
    generator: torch.Generator = field(default_factory=torch.Generator)


class Batch:
    """Rows that step together; the cache and `mask` (B, T) are padded on the left."""

    def __init__(self, net: Any, judge: Any) -> None:
        self.net, self.judge = net, judge
        known = inspect.signature(type(net).forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"  # new and old name
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self.rows: list[Row] = []
        self.cache: Any = None
        self.mask = torch.empty(0, 0, dtype=torch.long, device=net.device)

    @property
    def open(self) -> bool:
        """True if newcomers can join: a cache of plain layers, or none yet."""
        return not self.rows or all(type(layer) is DynamicLayer for layer in self.cache.layers)

    def add(self, rows: list[Row]) -> None:
        """Read the prompts of `rows`, each distinct one once, and sample their first tokens."""
        older, self.rows = self.rows, [*self.rows, *rows]
        prompts = list(dict.fromkeys(tuple(row.prompt) for row in rows))
        width = max(map(len, prompts))
        device = self.net.device
        ids = torch.tensor([[0] * (width - len(p)) + list(p) for p in prompts], device=device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=device)
        logits, cache = self._forward(ids, mask, None)
        place = {prompt: i for i, prompt in enumerate(prompts)}
        pick = torch.tensor([place[tuple(row.prompt)] for row in rows], device=device)
        cache.batch_select_indices(pick)
        fresh, cache, mask = self._settle(rows, logits[pick], cache, mask[pick])
        if not older:
            self.cache, self.mask = cache, mask
        elif fresh:
            self._join(cache, mask)
        self.rows = [*older, *fresh]

    def step(self) -> None:
        """Sample one token for each row."""
        last = torch.tensor([[row.ids[-1]] for row in self.rows], device=self.net.device)
        mask = torch.cat([self.mask, torch.ones_like(last)], 1)
        logits, cache = self._forward(last, mask, self.cache)
        self.rows, self.cache, self.mask = self._settle(self.rows, logits, cache, mask)

    def _forward(self, ids: Any, mask: Any, cache: Any) -> tuple[Any, Any]:
        """Float32 logits (B, V) after the last of `ids` (B, T), and the cache."""
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
        out = self.net(**inputs, **{self.cache_name: cache}, use_cache=True, **self.last_only)
        return out.logits[:, -1].float(), out[self.cache_name]

    def _settle(self, rows: list[Row], logits: Any, cache: Any, mask: Any) -> tuple[Any, ...]:
        """Sample from `logits` (B, V): the rows that go on, their cache and mask (B, T)."""
        tokens = _sample(rows, logits)
        over = [self.judge(row, token) for row, token in zip(rows, tokens, strict=True)]
        keep = [i for i, done in enumerate(over) if not done]
        if not keep:
            return [], None, mask[:0]
        if len(keep) < len(rows):
            pick = torch.tensor(keep, device=mask.device)
            cache.batch_select_indices(pick)
            mask = mask[pick]
            if all(type(layer) is DynamicLayer for layer in cache.layers):
                unused = int(mask.argmax(1).min())  # columns that only pad the rows left
                mask = mask[:, unused:]
                for layer in cache.layers:
                    layer.keys = layer.keys[:, :, unused:]
                    layer.values = layer.values[:, :, unused:]
        return [rows[i] for i in keep], cache, mask

    def _join(self, cache: Any, mask: Any) -> None:
        """Put newcomers after the older rows; the narrower side is padded to (B, T)."""
        width = max(mask.shape[1], self.mask.shape[1])
        for old, new in zip(self.cache.layers, cache.layers, strict=True):
            for name in ("keys", "values"):
                pair = (getattr(old, name), getattr(new, name))
                wide = [_pad(x, width - x.shape[2], (0, 0)) for x in pair]
                setattr(old, name, torch.cat(wide))
        self.mask = torch.cat([_pad(m, width - m.shape[1]) for m in (self.mask, mask)])


def _pad(tensor: Any, count: int, after: tuple[int, ...] = ()) -> Any:
    """`tensor` with `count` zeros before its last axis, or the one before it: (B, H, T, D)."""
    return torch.nn.functional.pad(tensor, (*after, count, 0))


def _sample(rows: list[Row], logits: Any) -> list[int]:
    """One token a row from `logits` (B, V), by the row's own random number; log-probs kept."""
    raw = torch.log_softmax(logits, -1)
    draws = [torch.rand((), generator=r.generator, dtype=torch.float64).item() for r in rows]
    heats = [row.sampling.temperature for row in rows]
    tokens = logits.argmax(-1)
    hot = [i for i, heat in enumerate(heats) if heat > 0]
    if hot:
        column = {"dtype": torch.float64, "device": logits.device}
        heat = torch.tensor([[heats[i]] for i in hot], **column)
        top_p = torch.tensor([[rows[i].sampling.top_p] for i in hot], **column)
        draw = torch.tensor([[draws[i]] for i in hot], **column)
        tokens[hot] = draw_tokens(torch.softmax(raw[hot].double() / heat, -1), top_p, draw)
    count = min(max(row.sampling.top_logprobs for row in rows), raw.shape[1])
    tops = raw.topk(max(count, 0), -1).values.tolist()
    chosen = raw.gather(1, tokens[:, None])[:, 0].tolist()
    for row, logprob, top in zip(rows, chosen, tops, strict=True):
        if logprob != logprob:
            raise EngineError("the model's logits are not numbers (NaN)")
        row.logprobs.append(logprob)
        row.tops.append(top[: max(row.sampling.top_logprobs, 0)])
    return list(tokens.tolist())


def draw_tokens(probs: Any, top_p: Any, draw: Any) -> Any:
    """Tokens (B,) where the cumulated `probs` (B, V), cut at `top_p` (B, 1), pass `draw` (B, 1)."""
    order = None
    if bool((top_p < 1).any()):
        probs, order = probs.sort(dim=-1, descending=True, stable=True)
        outside = (probs.cumsum(-1) - probs >= top_p) & (top_p < 1)
        outside[:, 0] = False
        probs = probs.masked_fill(outside, 0.0)
    total = probs.cumsum(-1)
    index = torch.searchsorted(total, draw * total[:, -1:], right=True)
    index = index.clamp(max=probs.shape[1] - 1)
    return (index if order is None else order.gather(1, index))[:, 0]
