"""The contract of an engine: tokens in, tokens out; it batches what is waiting.

A server that tells no token ids is a TextEngine: text in, text out, and the record says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

from tircli.records import Json, Segment

Message = dict[str, Any]
"""`{"role", "content"}`, as in the OpenAI chat format."""


@dataclass(frozen=True)
class Sampling:
    """How one turn is sampled."""

    max_tokens: int
    temperature: float = 1.0
    """0 = greedy."""
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    """The turn ends with the token that completes one of these; that token is kept."""
    seed: int = 0
    top_logprobs: int = 1
    """How many of the highest log-probabilities to return for each position."""
    key: str = ""
    """Id of the trajectory that asks: `scripted` replies by it, servers are chosen by it."""
    turn: int = 0
    """Number of model turns before this one."""
    tools: bool = True
    """False: the last turn, in which no call counts; for chat servers."""


@dataclass(slots=True)
class Completion:
    """What one turn sampled."""

    token_ids: list[int] | None
    """Exactly the sampled ids, an end-of-text id included; None from a TextEngine."""
    text: str
    """`token_ids` decoded, without the end-of-text token."""
    finish: str
    """`stop` (a stop string), `eos` or `length`."""
    stop: str | None = None
    """The stop string that ended the turn; None with finish `stop`: the server does not tell."""
    logprobs: list[float] | None = None
    """Nats of each sampled token, from the raw distribution (before temperature and top-p)."""
    top_logprobs: list[list[float]] | None = None
    """For each position the highest raw log-probabilities, best first."""
    ends: list[int] | None = None
    """Where in `text` each token ends; None = to be found by `decode`."""
    n_tokens: int = 0
    """Sampled tokens, counted by the server where there are no ids."""
    message: Json | None = None
    """The assistant message of a chat server, as a later request must repeat it."""

    def __post_init__(self) -> None:
        if self.token_ids is not None:
            self.n_tokens = len(self.token_ids)


class Engine(Protocol):
    """A model that continues token ids."""

    name: str
    model: str
    context: int | None
    """Longest prompt and completion together, in tokens; None = unknown."""

    def render(self, prompt: str | list[Message]) -> tuple[str, list[int]]:
        """Text and ids of a raw prompt (with BOS where the tokenizer has one) or of a chat."""

    def render_turn(self, messages: list[Message]) -> list[tuple[str, list[int]]]:
        """What a chat appends for each of `messages` after a model turn.

        Joined it is the whole, the opening of the next model turn included.
        """

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no BOS, special tokens spelt out, never acted on."""

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`."""

    async def generate(self, ids: list[int], sampling: Sampling) -> Completion:
        """The continuation of `ids`. Raises TurnError for this turn, EngineError for all."""

    async def aclose(self) -> None:
        """Free what the engine holds."""


class TextEngine(Protocol):
    """An Engine whose `ids` is False: render, render_turn and encode give None for the ids."""

    can_render: bool
    """False: it has no chat template, chats are sent as messages."""

    async def generate_text(self, segments: Sequence[Segment], sampling: Sampling) -> Completion:
        """The continuation of `segments`. Raises as `Engine.generate`."""


def has_ids(engine: Engine) -> bool:
    """True if `engine` takes and gives token ids."""
    return bool(getattr(engine, "ids", True))


def prompt_segment(
    engine: Engine,
    prompt: str | list[Message],
    functions: Sequence[Json] = (),
    *,
    native: bool = False,
) -> Segment:
    """The first segment of a trajectory.

    `native`: a TextEngine sends it as messages and describes the `functions` itself; the segment
    keeps both for the requests to come.
    """
    if has_ids(engine) or isinstance(prompt, str):
        return Segment("prompt", *engine.render(prompt))
    if cast(TextEngine, engine).can_render and not native:
        return Segment("prompt", *engine.render(prompt))
    text = "\n".join(f"[{message['role']}]\n{message['content']}" for message in prompt)
    described: Json = {"functions": list(functions)} if functions else {}
    return Segment("prompt", text, extra={"messages": prompt} | described)


async def continued(engine: Engine, segments: Sequence[Segment], sampling: Sampling) -> Completion:
    """What `engine` writes after `segments`. Raises as `Engine.generate`."""
    if not has_ids(engine):
        return await cast(TextEngine, engine).generate_text(segments, sampling)
    ids: list[int] = []
    for segment in segments:
        ids += segment.token_ids or ()
    return await engine.generate(ids, sampling)


async def ask(engine: Engine, prompt: str | list[Message], sampling: Sampling) -> Completion:
    """The reply to one prompt, whether or not `engine` knows token ids."""
    return await continued(engine, [prompt_segment(engine, prompt)], sampling)
