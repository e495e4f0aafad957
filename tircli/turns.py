"""One turn of a model while it is written: what was sampled, where it is cut, how sure it was."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TypeVar

from tircli.engines import Completion
from tircli.protocols import Call
from tircli.records import Json, Segment

_T = TypeVar("_T")


class Turn:
    """A model segment under way, with what the record does not keep of its tokens."""

    def __init__(self, decode: Callable[[list[int]], str], ids: bool) -> None:
        self.segment = Segment("model", "", [] if ids else None)
        self.n_tokens = 0
        self._decode = decode
        self._logprobs: list[float] | None = []
        self._best: list[float] | None = []  # ln of the highest probability at each position
        self._ends: list[int] | None = []

    def append(self, done: Completion) -> None:
        """Add what one request sampled; a stop string that the server hides is restored once."""
        text, segment = done.text, self.segment
        if done.stop and done.stop not in text:
            text += done.stop
        self.n_tokens += done.n_tokens
        start = len(segment.text)
        segment.text += text
        if done.token_ids is not None and segment.token_ids is not None:
            segment.token_ids += done.token_ids
        best = [top[0] for top in done.top_logprobs or () if top]
        self._best = _joined(self._best, best if len(best) == done.n_tokens else None)
        self._logprobs = _joined(self._logprobs, done.logprobs)
        ends = done.ends and [start + end for end in done.ends]
        self._ends = _joined(self._ends, ends)
        if segment.token_ids is None:
            segment.extra = {"n_tokens": self.n_tokens}
            if done.message is not None:
                segment.extra["message"] = done.message
        else:
            segment.logprobs = self._logprobs

    @property
    def text(self) -> str:
        """All that the turn says so far."""
        return self.segment.text

    def cut(self, end: int) -> None:
        """Drop the whole tokens after character `end`, an end-of-text token included."""
        segment = self.segment
        if segment.token_ids is None:
            segment.text = segment.text[:end]
            return
        keep = self._count(end)
        if keep < len(segment.token_ids):
            text = segment.text[: self._ends[keep - 1] if keep else 0] if self._ends else None
            segment.token_ids = segment.token_ids[:keep]
            segment.text = self._decode(segment.token_ids) if text is None else text
            self._logprobs = self._logprobs and self._logprobs[:keep]
            segment.logprobs = self._logprobs

    def span(self, call: Call) -> list[int] | None:
        """`[start, end)`: the tokens that hold `call`; None without ids."""
        if self.segment.token_ids is None and not self._ends:
            return None
        # A token counts as soon as one of its characters lies in the call.
        return [self._count(call.start, after=True) - 1, self._count(call.end)]

    def confidence(self, span: list[int] | None) -> Json | None:
        """Geometric means over the tokens of `span` (SPEC 7.1); None if the engine gives none.

        `max` = exp(mean of ln max p), `sampled` = the same of the sampled token's p.
        """
        if span is None or not self._best or not self._logprobs or span[1] <= span[0]:
            return None
        start, end = span
        count = end - start
        return {
            "max": math.exp(sum(self._best[start:end]) / count),
            "sampled": math.exp(sum(self._logprobs[start:end]) / count),
            "tokens": count,
        }

    def _count(self, end: int, *, after: bool = False) -> int:
        """The least number of tokens whose text reaches character `end`, or goes `after` it."""
        if self._ends:
            find = bisect_right if after else bisect_left
            return min(find(self._ends, end) + 1, len(self._ends)) if end or after else 0
        return self._search(end + after)

    def _search(self, want: int) -> int:
        """The least number of tokens that decode to `want` characters, near where it should be.

        Tokens are about equally long, so a guess and steps of 1, 2, 4 from it need few decodings.
        """
        ids = self.segment.token_ids or []
        low, high, step = 0, len(ids), 1
        guess = min(-(-len(ids) * want // max(len(self.text), 1)), len(ids))
        while low < high:
            if len(self._decode(ids[:guess])) >= want:
                high = guess
                guess = max(high - step, low)
            else:
                low = guess + 1
                guess = min(low + step - 1, high)
            step *= 2
            if high - low <= step:
                guess = (low + high) // 2
        return min(low, len(ids))


def _joined(left: list[_T] | None, right: list[_T] | None) -> list[_T] | None:
    """Both, or None as soon as one side is unknown."""
    return None if left is None or right is None else [*left, *right]
