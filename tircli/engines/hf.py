"""The `hf` engine: a transformers model in this process, with a batcher of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tircli.engines import Completion, Sampling
from tircli.records import EngineError, InputError, MissingExtra, TurnError

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
try:
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging
except ImportError as _error:
    raise MissingExtra(f"engine hf needs {_error.name}; pip install 'tircli[local]'") from _error
from tircli.engines.folder import first_line, source
from tircli.engines.hf_batch import Batch, Row
from tircli.engines.tokens import Tokens

PREFILL_TOKENS = 32768
"""Most prompt tokens, padding included, that one forward pass reads."""
_TAIL = 16
"""Tokens decoded before the longest stop string: whole characters, no stripped first space."""


class HFEngine:
    """A local folder or hub name, continued by transformers; see `Engine`."""

    name = "hf"
    neutral = frozenset({"device", "max_batch"})

    def __init__(
        self,
        model: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        max_batch: int = 32,
        context: int | None = None,
    ) -> None:
        if max_batch < 1:
            raise InputError(f"engine hf: max_batch is {max_batch}; give 1 or more")
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        if dtype == "auto":
            dtype = "float32" if device == "cpu" else "bfloat16"
        self.model, self.max_batch = model, max_batch
        self._net = _load(model, device, dtype)
        self._tokens = tokens = Tokens(model)
        self.render, self.render_turn = tokens.render, tokens.render_turn
        self.encode, self.decode = tokens.encode, tokens.decode
        longest = getattr(self._net.config.get_text_config(), "max_position_embeddings", None)
        self.context = context or longest
        self._batch = Batch(self._net, self._judge)
        self._waiting: deque[Row] = deque()
        self._queue_lock = threading.Lock()
        self._busy = self._closed = False
        self._executor = ThreadPoolExecutor(1, "tir-hf")

    async def generate(self, ids: list[int], sampling: Sampling) -> Completion:
        """The continuation of `ids`. Raises TurnError for this turn, EngineError for all."""
        if self._closed:
            raise EngineError(f"model {self.model}: the engine is closed")
        if not ids:
            raise TurnError(f"model {self.model}: the prompt has no tokens")
        room = sampling.max_tokens
        if self.context is not None:
            if len(ids) >= self.context:
                sizes = f"the prompt has {len(ids)} tokens, the context holds {self.context}"
                raise TurnError(f"model {self.model}: {sizes}")
            room = min(room, self.context - len(ids))
        if room < 1:
            return Completion([], "", "length", logprobs=[], top_logprobs=[])
        row = Row(list(ids), sampling, room)
        row.generator.manual_seed(sampling.seed)
        self._waiting.append(row)
        asyncio.get_running_loop().call_soon(self._wake)  # after all that ask in this moment
        return await asyncio.wrap_future(row.future)

    async def aclose(self) -> None:
        """Stop the worker after its step; turns still running fail with EngineError."""
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)

    def _wake(self) -> None:
        with self._queue_lock:
            if self._busy or not self._waiting:
                return
            if self._closed:
                self._fail("the engine is closed")
                return
            self._busy = True
            self._executor.submit(self._work).add_done_callback(self._worked)

    def _worked(self, job: Future[None]) -> None:
        """Whatever broke the worker is told to all who wait for it."""
        error = job.exception()
        if error is None:
            return
        oom = isinstance(error, (torch.OutOfMemoryError, MemoryError))
        remedy = "; lower max_batch or the context" if oom else ""
        with self._queue_lock:
            line = (str(error).strip() or "no message").splitlines()[0]
            self._fail(f"{type(error).__name__}: {line}{remedy}")
            self._busy = False

    def _fail(self, why: str) -> None:
        rows = [*self._batch.rows, *self._waiting]
        self._waiting.clear()
        self._batch = Batch(self._net, self._judge)
        for row in rows:
            if not row.future.done():
                row.future.set_exception(EngineError(f"model {self.model}: {why}"))

    @torch.inference_mode()
    def _work(self) -> None:
        """Admit and step until nobody waits."""
        while not self._closed:
            with self._queue_lock:
                rows = self._admit()
                if not rows and not self._batch.rows:
                    self._busy = False
                    return
            if rows:
                self._batch.add(rows)
            else:
                self._batch.step()
        raise EngineError("the engine is closed")

    def _admit(self) -> list[Row]:
        """The waiting rows that fit into the batch and into one forward pass."""
        rows: list[Row] = []
        prompts: set[tuple[int, ...]] = set()
        longest = 0
        while self._waiting and len(self._batch.rows) + len(rows) < self.max_batch:
            row = self._waiting[0]
            prompts.add(tuple(row.prompt))
            longest = max(longest, len(row.prompt))
            if (rows and longest * len(prompts) > PREFILL_TOKENS) or not self._batch.open:
                break
            self._waiting.popleft()
            if not row.future.cancelled():
                rows.append(row)
        return rows

    def _judge(self, row: Row, token: int) -> bool:
        """Add `token` to `row`; True if the row is over, its future then has the result."""
        row.ids.append(token)
        finish, stop = None, None
        if token in self._tokens.ends:
            finish = "eos"
        else:
            if token not in self._tokens.special:
                row.seen.append(token)
            stop = self._stop(row)
            if stop is not None:
                finish = "stop"
            elif len(row.ids) >= row.room:
                finish = "length"
        if finish is None:
            return row.future.cancelled()
        text = self.decode(row.ids[:-1] if finish == "eos" else row.ids)
        done = Completion(row.ids, text, finish, stop, row.logprobs, row.tops)
        if row.future.set_running_or_notify_cancel():
            row.future.set_result(done)
        return True

    def _stop(self, row: Row) -> str | None:
        """The stop string that the newest token completes: the first to end."""
        if not row.sampling.stop:
            return None
        longest = max(len(stop.encode("utf-8", "replace")) for stop in row.sampling.stop)
        tail = self.decode(row.seen[-longest - _TAIL :])
        found = [(tail.find(s) + len(s), s) for s in row.sampling.stop if s and s in tail]
        return min(found)[1] if found else None


def _load(model: str, device: str, dtype: str) -> Any:
    """The network of a folder or a hub name."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InputError(f"engine hf: dtype {dtype!r}; write float32, bfloat16 or float16")
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        net: Any = AutoModelForCausalLM.from_pretrained(source(model), dtype=kind)
        return net.to(device).eval()
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        raise InputError(f"model {model} does not load: {first_line(error)}") from error
