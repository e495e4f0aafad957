"""The `openai` engine: servers that speak the OpenAI API (vLLM, SGLang, llama.cpp, hosted ones).

Where every server returns token ids (vLLM: `return_token_ids`) and the tokenizer is at hand,
prompts go out as ids and the ids that come back are the record. Elsewhere it is text in, text
out (`ids` is False), and a protocol of tool messages goes through chat completions. Which of
these holds is asked of the servers at the start, never guessed from their names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx

from tircli.engines import Completion, Message, Sampling
from tircli.engines.folder import source
from tircli.engines.http import Fault, Patience, TooLong, reason, shown
from tircli.engines.replies import (
    choice_of,
    finish_of,
    from_chat,
    from_text,
    functions_of,
    ids_of,
    logprobs_of,
    messages_of,
    n_tokens_of,
)
from tircli.engines.servers import Servers
from tircli.records import InputError, Json, MissingExtra, Segment

if TYPE_CHECKING:
    from tircli.engines.tokens import Tokens

_IDS = {"return_token_ids": True, "return_tokens_as_token_ids": True}
_KEEP_STOP = {"include_stop_str_in_output": True}


class OpenAIEngine:
    """`model` as the servers at `base_urls` call it; see `Engine` and `TextEngine`."""

    name = "openai"
    neutral = frozenset(field.name for field in fields(Patience))

    def __init__(
        self,
        model: str,
        *,
        base_urls: Sequence[str] = (),
        api_key_env: str = "",
        concurrency: int = 64,
        tokenizer: str = "",
        ids: bool | None = None,
        logprobs: bool = True,
        connect_seconds: float = Patience.connect_seconds,
        first_byte_seconds: float = Patience.first_byte_seconds,
        total_seconds: float = Patience.total_seconds,
        tries: int = Patience.tries,
        pause_seconds: float = Patience.pause_seconds,
        health_seconds: float = Patience.health_seconds,
        down_seconds: float = Patience.down_seconds,
        busy_seconds: float = Patience.busy_seconds,
    ) -> None:
        self.model, self._logprobs = model, logprobs
        self.context: int | None = None
        self.wait = Patience(
            connect_seconds, first_byte_seconds, total_seconds, tries,
            pause_seconds, health_seconds, down_seconds, busy_seconds,
        )  # fmt: skip
        headers = _authorization(api_key_env)
        _check_urls(base_urls)
        self.why_no_ids = "--engine-option ids=false" if ids is False else ""
        self._tokens = self._load_tokens(tokenizer, needed=bool(tokenizer) or ids is True)
        self._servers = Servers(list(base_urls), headers, concurrency, self.wait)
        self.servers, self.in_flight = len(base_urls), self._servers.in_flight
        self._extras: Json = dict(_KEEP_STOP)
        self._meet(base_urls, headers)
        self.ids = not self.why_no_ids
        if ids and not self.ids:
            raise InputError(f"--engine-option ids=true: {self.why_no_ids}")

    @property
    def can_render(self) -> bool:
        """True if a chat can be written as text here."""
        return self._tokens is not None

    def render(self, prompt: str | list[Message]) -> tuple[str, list[int] | None]:
        """As `Engine.render`; without ids where the servers know none."""
        if self._tokens is None:
            assert isinstance(prompt, str), "a chat without a chat template"
            return prompt, None
        text, ids = self._tokens.render(prompt)
        return text, ids if self.ids else None

    def render_turn(self, messages: list[Message]) -> list[tuple[str, list[int] | None]]:
        """As `Engine.render_turn`; the contents alone where messages are sent."""
        if self._tokens is None or not self.ids:
            return [(str(message["content"]), None) for message in messages]
        return [(text, ids) for text, ids in self._tokens.render_turn(messages)]

    def encode(self, text: str) -> list[int] | None:
        """As `Engine.encode`."""
        return self._tokens.encode(text) if self._tokens is not None and self.ids else None

    def decode(self, ids: list[int]) -> str:
        """As `Engine.decode`."""
        assert self._tokens is not None, "ids without a tokenizer"
        return self._tokens.decode(ids)

    async def generate(self, ids: list[int], sampling: Sampling) -> Completion:
        """The continuation of `ids`."""
        body = self._body(sampling) | {"prompt": ids} | _IDS
        read = partial(self._with_ids, sampling=sampling)
        return await self._servers.post("/completions", body, sampling.key, read)

    async def generate_text(self, segments: Sequence[Segment], sampling: Sampling) -> Completion:
        """The continuation of `segments`, by their text or as chat messages."""
        first = segments[0].extra
        if "messages" in first:
            body = self._body(sampling) | {"messages": messages_of(segments)}
            body.pop("include_stop_str_in_output", None)
            if self._logprobs:
                body |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
            if "functions" in first:
                body |= functions_of(first["functions"], sampling.tools)
            path, read = "/chat/completions", from_chat
        else:
            body = self._body(sampling) | {"prompt": "".join(s.text for s in segments)}
            path, read = "/completions", partial(from_text, sampling=sampling)
        try:
            return await self._servers.post(path, body, sampling.key, read)
        except TooLong:
            if sampling.turn == 0:
                raise
            return Completion(None, "", "length")

    async def aclose(self) -> None:
        """Close all connections."""
        await self._servers.aclose()

    def _body(self, sampling: Sampling) -> Json:
        body: Json = {
            "model": self.model,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed & 0x7FFFFFFF,  # llama.cpp takes 32 bits
        }
        if sampling.stop:
            body |= {"stop": list(sampling.stop)} | self._extras
        if self._logprobs or self.ids:
            body["logprobs"] = sampling.top_logprobs
        return body

    def _with_ids(self, reply: Any, sampling: Sampling) -> Completion:
        """The turn, its text decoded from its ids. Raises Fault if the reply contradicts itself."""
        choice, n_tokens = choice_of(reply), n_tokens_of(reply)
        ids = ids_of(choice)
        if ids is None or len(ids) != n_tokens:
            count = "no" if ids is None else len(ids)
            raise Fault(f"{count} token ids for {n_tokens} tokens")
        sampled, tops = logprobs_of(choice.get("logprobs"), sampling.top_logprobs)
        if len(sampled or ()) != n_tokens or len(tops or ()) != n_tokens:
            raise Fault(f"{len(sampled or ())} log-probabilities for {n_tokens} tokens")
        text = self.decode(ids)
        finish, stop = finish_of(choice, sampling.stop)
        if stop is not None and stop not in text:
            raise Fault(f"the ids end before the stop string {stop}")
        return Completion(ids, text, "eos" if stop is None and finish == "stop" else finish,
                          stop, sampled, tops)  # fmt: skip

    def _load_tokens(self, name: str, *, needed: bool) -> Tokens | None:
        if self.why_no_ids and not needed:
            return None
        try:
            source(name or self.model)  # Before anything heavy is imported.
            from tircli.engines.tokens import Tokens

            return Tokens(name or self.model)
        except (MissingExtra, InputError) as error:
            if needed:
                raise
            self.why_no_ids = f"{error}; or name one by --engine-option tokenizer=FOLDER"
            return None

    def _meet(self, urls: Sequence[str], headers: dict[str, str]) -> None:
        """Ask each server what it is; one that is down is left for later. Raises InputError."""
        answered = 0
        timeout = httpx.Timeout(self.wait.first_byte_seconds, connect=self.wait.connect_seconds)
        for server, url in zip(self._servers.all, urls, strict=True):
            with httpx.Client(base_url=url, headers=headers, timeout=timeout) as client:
                try:
                    self._check_model(server.url, client.get("/models"))
                    self._probe(server.url, client)
                except httpx.TransportError as error:
                    server.up, server.why = False, f"{type(error).__name__}: {error}"
                else:
                    answered += 1
        if not answered:
            whys = "; ".join(f"{server.url}: {server.why}" for server in self._servers.all)
            raise InputError(f"--base-url: no server answers ({whys}); start one or check the URL")

    def _check_model(self, url: str, response: httpx.Response) -> None:
        if response.status_code in (401, 403):
            raise InputError(f"{url}: {reason(response, self._servers.secret)}; check the API key")
        if response.status_code != 200:
            return  # Not every server lists its models.
        try:
            models = {entry["id"]: entry for entry in response.json()["data"]}
        except (ValueError, KeyError, TypeError):
            return
        if models and self.model not in models:
            names = ", ".join(sorted(map(str, models))[:20])
            raise InputError(f"--model {self.model}: {url} has {names}; choose one of these")
        longest = models.get(self.model, {}).get("max_model_len")
        if isinstance(longest, int):
            self.context = min(self.context or longest, longest)

    def _probe(self, url: str, client: httpx.Client) -> None:
        """Find out whether the server at `url` takes and returns token ids, and stop strings."""
        prompt = self._tokens.encode("The") if self._tokens else "The"
        body = {"model": self.model, "prompt": prompt, "max_tokens": 2, "temperature": 0}
        response = client.post("/completions", json=body | {"logprobs": 1} | _IDS | _KEEP_STOP)
        try:
            choice = response.json()["choices"][0] if response.status_code == 200 else {}
            n_tokens = response.json()["usage"]["completion_tokens"] if choice else 0
        except (ValueError, KeyError, TypeError, IndexError):
            choice, n_tokens = {}, 0
        ids = ids_of(choice)
        if ids is None or len(ids) != n_tokens:
            self._extras = {}
            self.why_no_ids = self.why_no_ids or f"{url} returns no token ids"
        elif self._tokens is not None:
            mine, theirs = self._tokens.decode(ids).strip(), str(choice.get("text")).strip()
            if mine != theirs and "\ufffd" not in mine + theirs:
                raise InputError(
                    f"--engine-option tokenizer: it reads {mine!r} where {url} writes {theirs!r}; "
                    "give the folder of the served model"
                )


def _authorization(variable: str) -> dict[str, str]:
    key = os.environ.get(variable or "OPENAI_API_KEY", "")
    if variable and not key:
        raise InputError(f"--api-key-env: {variable} is not set; export it or leave the option out")
    return {"Authorization": f"Bearer {key}"} if key else {}


def _check_urls(urls: Sequence[str]) -> None:
    if not urls:
        raise InputError(
            "--base-url: engine openai needs one, for example http://localhost:8000/v1"
        )
    for url in urls:
        if not url.startswith(("http://", "https://")):
            raise InputError(f"--base-url: {shown(url)}; begin it with http:// or https://")
        if urls.count(url) > 1:
            raise InputError(f"--base-url: {shown(url)} stands twice; give each server once")
