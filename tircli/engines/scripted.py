"""An engine that replies from a JSONL file: for tests, demos and CI scripts.

A line is `{"id": ..., "replies": [...]}`; `id` is a trajectory id (`q1#0`), a group (`q1`) or
`*` for all others. A reply is a text, or an object with `text` and optionally `token_ids`,
`logprobs`, `top_logprobs` (a list, or one number for all tokens), `finish`, `stop`, `seconds`
(latency) and `error`. Ids are UTF-8 bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tircli import jsonl
from tircli.engines import Completion, Message, Sampling
from tircli.records import InputError, RecordError, TurnError

EOS = 256


def _ids(text: str) -> list[int]:
    return list(text.encode("utf-8", "replace"))


class ScriptedEngine:
    """Replies from `model`, the path of a JSONL file. Raises InputError."""

    name = "scripted"
    context = None

    def __init__(self, model: str) -> None:
        self.model = model
        self._replies: dict[str, list[Any]] = {}
        for place, line in jsonl.lines(model):
            record = jsonl.decode(line, place)
            if not isinstance(record, dict) or not isinstance(record.get("replies"), list):
                raise RecordError(f'{place}: no "replies"; write {{"id": "q1", "replies": [...]}}')
            self._replies[str(record.get("id", "*"))] = record["replies"]

    def render(self, prompt: str | list[Message]) -> tuple[str, list[int]]:
        """The prompt in plain words, and its bytes."""
        if not isinstance(prompt, str):
            prompt = "".join(f"[{m['role']}]\n{m['content']}\n" for m in prompt) + "[assistant]\n"
        return prompt, _ids(prompt)

    def render_turn(self, messages: list[Message]) -> list[tuple[str, list[int]]]:
        """As `render`, after a model turn."""
        texts = [f"\n[{message['role']}]\n{message['content']}\n" for message in messages]
        texts[-1] += "[assistant]\n"
        return [(text, _ids(text)) for text in texts]

    def encode(self, text: str) -> list[int]:
        """UTF-8 bytes."""
        return _ids(text)

    def decode(self, ids: list[int]) -> str:
        """Text of byte ids; ids that are no bytes are left out."""
        return bytes(i for i in ids if i < EOS).decode("utf-8", "replace")

    async def generate(self, ids: list[int], sampling: Sampling) -> Completion:
        """The recorded reply for this trajectory and turn, cut at its first stop string."""
        group = sampling.key.rpartition("#")[0]
        replies = next(
            (self._replies[key] for key in (sampling.key, group, "*") if key in self._replies), None
        )
        if replies is None or sampling.turn >= len(replies):
            raise InputError(
                f"{self.model}: no reply {sampling.turn + 1} for {sampling.key}; add one"
            )
        reply = replies[sampling.turn]
        reply = {"text": reply} if isinstance(reply, str) else reply
        await asyncio.sleep(float(reply.get("seconds", 0.0)))
        if "error" in reply:
            raise TurnError(str(reply["error"]))
        return self._completion(reply, sampling)

    def _completion(self, reply: dict[str, Any], sampling: Sampling) -> Completion:
        if "token_ids" in reply:
            token_ids = [int(i) for i in reply["token_ids"]]
            text = reply.get("text", self.decode(token_ids))
            finish = reply.get("finish", "stop" if reply.get("stop") else "eos")
            return _with_logprobs(Completion(token_ids, text, finish, reply.get("stop")), reply)
        text = str(reply.get("text", ""))
        hits = [(text.find(s) + len(s), s) for s in sampling.stop if s in text]
        finish, stop = reply.get("finish", "eos"), reply.get("stop")
        if hits and "finish" not in reply:
            end, stop = min(hits)
            text, finish = text[:end], "stop"
        token_ids = _ids(text)
        if len(token_ids) > sampling.max_tokens:
            token_ids, finish, stop = token_ids[: sampling.max_tokens], "length", None
            text = self.decode(token_ids)
        if finish == "eos":
            token_ids = [*token_ids, EOS]
        return _with_logprobs(Completion(token_ids, text, finish, stop), reply)

    async def aclose(self) -> None:
        """Nothing to free."""


def _with_logprobs(done: Completion, reply: dict[str, Any]) -> Completion:
    """`done` with the recorded log-probabilities; one number stands for all tokens."""
    count = len(done.token_ids or ())
    sampled, best = reply.get("logprobs"), reply.get("top_logprobs")
    done.logprobs = [float(sampled)] * count if isinstance(sampled, (int, float)) else sampled
    done.top_logprobs = [[float(best)]] * count if isinstance(best, (int, float)) else best
    return done
