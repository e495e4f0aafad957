"""The `hf` engine: a transformers model in this process, with a batcher of its own."""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tircli.engines import Completion, Message, Sampling
from tircli.records import EngineError, InputError, MissingExtra, TurnError

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.cache_utils import DynamicLayer
    from transformers.utils import logging as transformers_logging
except ImportError as _error:
    raise MissingExtra(f"engine hf needs {_error.name}; pip install 'tircli[local]'") from _error

PREFILL_TOKENS = 32768
"""Most prompt tokens, padding included, that one forward pass reads."""
_TAIL = 16
"""Tokens decoded before the longest stop string: whole characters, no stripped first space."""


@dataclass(slots=True, eq=False)
class _Row:
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


class HFEngine:
    """A local folder or hub name, continued by transformers; see `Engine`."""

    name = "hf"

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
        self._tokenizer, self._net = _load(model, device, dtype)
        longest = getattr(self._net.config.get_text_config(), "max_position_embeddings", None)
        self.context = context or longest
        self._ends = _end_ids(self._tokenizer, self._net)
        self._special = set(self._tokenizer.all_special_ids)
        self._tokens_lock = threading.Lock()  # fast tokenizers fail when two threads meet in one
        self._batch = _Batch(self._net, self._judge)
        self._waiting: deque[_Row] = deque()
        self._queue_lock = threading.Lock()
        self._busy = self._closed = False
        self._executor = ThreadPoolExecutor(1, "tir-hf")

    def render(self, prompt: str | list[Message]) -> tuple[str, list[int]]:
        """Text and ids of a raw prompt (ids with BOS where the tokenizer has one) or of a chat."""
        if not isinstance(prompt, str):
            text = self._template(prompt)
            return text, self._encode_chat(text, prompt)
        bos = self._tokenizer.bos_token_id
        with self._tokens_lock:
            first = self._tokenizer("x", add_special_tokens=True)["input_ids"][0]
        return prompt, [bos] * (bos is not None and first == bos) + self.encode(prompt)

    def render_turn(self, messages: list[Message]) -> tuple[str, list[int]]:
        """What a chat appends for `messages`; the model has written its end token itself."""
        mark = "a model turn"
        dummy = [{"role": "user", "content": "x"}, {"role": "assistant", "content": mark}]
        text = self._template([*dummy, *messages])
        _, found, text = text.partition(mark)
        if not found:
            raise InputError(f"model {self.model}: its chat template drops assistant turns")
        for end in sorted(self._ends):
            text = text.removeprefix(self._tokenizer.convert_ids_to_tokens(end))
        return text, self._encode_chat(text, messages)

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no BOS, special tokens spelt out."""
        return self._encode(text, plain=True)

    def decode(self, ids: list[int]) -> str:
        """Text of `ids` without special tokens, as in `Completion.text`."""
        how = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        with self._tokens_lock:
            return str(self._tokenizer.decode(ids, **how))

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
        row = _Row(list(ids), sampling, room)
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
        self._batch = _Batch(self._net, self._judge)
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

    def _admit(self) -> list[_Row]:
        """The waiting rows that fit into the batch and into one forward pass."""
        rows: list[_Row] = []
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

    def _judge(self, row: _Row, token: int) -> bool:
        """Add `token` to `row`; True if the row is over, its future then has the result."""
        row.ids.append(token)
        finish, stop = None, None
        if token in self._ends:
            finish = "eos"
        else:
            if token not in self._special:
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

    def _stop(self, row: _Row) -> str | None:
        """The stop string that the newest token completes: the first to end."""
        if not row.sampling.stop:
            return None
        longest = max(len(stop.encode("utf-8", "replace")) for stop in row.sampling.stop)
        tail = self.decode(row.seen[-longest - _TAIL :])
        found = [(tail.find(s) + len(s), s) for s in row.sampling.stop if s and s in tail]
        return min(found)[1] if found else None

    def _encode(self, text: str, *, plain: bool) -> list[int]:
        how = {"add_special_tokens": False, "split_special_tokens": plain}
        with self._tokens_lock:
            return list(self._tokenizer(text, **how)["input_ids"])

    def _template(self, chat: list[Message]) -> str:
        if not self._tokenizer.chat_template:
            remedy = "use a raw-prompt protocol or a chat model"
            raise InputError(f"model {self.model} has no chat template; {remedy}")
        how = {"tokenize": False, "add_generation_prompt": True}
        return str(self._tokenizer.apply_chat_template(chat, **how))

    def _encode_chat(self, text: str, messages: list[Message]) -> list[int]:
        """Ids of a rendered chat; special tokens that a content spells are not acted on."""
        contents = [str(message.get("content") or "").strip() for message in messages]
        special = self._tokenizer.all_special_tokens
        if not any(token in content for content in contents for token in special):
            return self._encode(text, plain=False)
        ids: list[int] = []
        for content in contents:
            markup, found, text = text.partition(content) if content else ("", "x", text)
            if not found:
                why = "its chat template rewrites a message that spells a special token"
                raise TurnError(f"model {self.model}: {why}")
            ids += self._encode(markup, plain=False) + self._encode(content, plain=True)
        return ids + self._encode(text, plain=False)


class _Batch:
    """Rows that step together; the cache and `mask` (B, T) are padded on the left."""

    def __init__(self, net: Any, judge: Any) -> None:
        self.net, self.judge = net, judge
        known = inspect.signature(type(net).forward).parameters
        self.cache_name = "cache" if "cache" in known else "past_key_values"  # new and old name
        self.last_only = {"logits_to_keep": 1} if "logits_to_keep" in known else {}
        self.rows: list[_Row] = []
        self.cache: Any = None
        self.mask = torch.empty(0, 0, dtype=torch.long, device=net.device)

    @property
    def open(self) -> bool:
        """True if newcomers can join: a cache of plain layers, or none yet."""
        return not self.rows or all(type(layer) is DynamicLayer for layer in self.cache.layers)

    def add(self, rows: list[_Row]) -> None:
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

    def _settle(self, rows: list[_Row], logits: Any, cache: Any, mask: Any) -> tuple[Any, ...]:
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


def _sample(rows: list[_Row], logits: Any) -> list[int]:
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
        tokens[hot] = _draw(torch.softmax(raw[hot].double() / heat, -1), top_p, draw)
    count = min(max(row.sampling.top_logprobs for row in rows), raw.shape[1])
    tops = raw.topk(max(count, 0), -1).values.tolist()
    chosen = raw.gather(1, tokens[:, None])[:, 0].tolist()
    for row, logprob, top in zip(rows, chosen, tops, strict=True):
        if logprob != logprob:
            raise EngineError("the model's logits are not numbers (NaN)")
        row.logprobs.append(logprob)
        row.tops.append(top[: max(row.sampling.top_logprobs, 0)])
    return list(tokens.tolist())


def _draw(probs: Any, top_p: Any, draw: Any) -> Any:
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


def _load(model: str, device: str, dtype: str) -> tuple[Any, Any]:
    """Tokenizer and network of a folder or a hub name."""
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise InputError(f"engine hf: dtype {dtype!r}; write float32, bfloat16 or float16")
    folder = Path(model).expanduser()
    here = folder.is_dir()
    if not here and (model.count("/") != 1 or model[0] in "/.~"):
        raise InputError(f"model {model}: no such folder; give a model folder or a hub name")
    if here and not (folder / "config.json").is_file():
        raise InputError(f"model {model}: no config.json in it; give a Hugging Face model folder")
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    source = str(folder) if here else model
    try:
        tokenizer = AutoTokenizer.from_pretrained(source)
        net: Any = AutoModelForCausalLM.from_pretrained(source, dtype=kind)
        return tokenizer, net.to(device).eval()
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InputError(f"model {model} does not load: {line}") from error


def _end_ids(tokenizer: Any, net: Any) -> set[int]:
    """All ids that end a text, by the generation config and by the tokenizer."""
    ends = getattr(net.generation_config, "eos_token_id", None)
    listed = ends if isinstance(ends, list) else [ends]
    return {end for end in (*listed, tokenizer.eos_token_id) if end is not None}
