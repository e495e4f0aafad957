"""The contract of an engine: tokens in, tokens out; it batches what is waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

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


@dataclass(slots=True)
class Completion:
    """What one turn sampled."""

    token_ids: list[int]
    """Exactly the sampled ids, an end-of-text id included."""
    text: str
    """`token_ids` decoded, without the end-of-text token."""
    finish: str
    """`stop` (a stop string), `eos` or `length`."""
    stop: str | None = None
    """The stop string that ended the turn."""
    logprobs: list[float] | None = None
    """Nats of each sampled token, from the raw distribution (before temperature and top-p)."""
    top_logprobs: list[list[float]] | None = None
    """For each position the highest raw log-probabilities, best first."""


class Engine(Protocol):
    """A model that continues token ids."""

    name: str
    model: str
    context: int | None
    """Longest prompt and completion together, in tokens; None = unknown."""

    def render(self, prompt: str | list[Message]) -> tuple[str, list[int]]:
        """Text and ids of a raw prompt (with BOS where the tokenizer has one) or of a chat."""

    def render_turn(self, messages: list[Message]) -> tuple[str, list[int]]:
        """What a chat appends for `messages` after a model turn, next turn's opening included."""

    def encode(self, text: str) -> list[int]:
        """Ids of plain text: no BOS, special tokens spelt out, never acted on."""

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`."""

    async def generate(self, ids: list[int], sampling: Sampling) -> Completion:
        """The continuation of `ids`. Raises TurnError for this turn, EngineError for all."""

    async def aclose(self) -> None:
        """Free what the engine holds."""
