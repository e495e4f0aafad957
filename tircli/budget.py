"""What a run samples with, what it may use, and what it has used."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tircli.records import TirError


@dataclass(frozen=True)
class Settings:
    """What a run samples with; stored in each record's `made`."""

    max_tokens: int = 4096
    """Model tokens of a whole trajectory."""
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    final_turn: bool = True
    """After the last call or turn one more turn without tools is given."""
    tokens: bool = True
    """Keep ids and log-probabilities in the record."""
    top_logprobs: int = 1
    tool_tries: int = 3
    """Tries of a tool that is unavailable."""
    max_turns: int | None = None
    """Turns before the final one; None = the protocol's limit."""
    max_calls: int | None = None
    """Executed calls in all; None = the protocol's limit."""
    max_seconds: float | None = None
    """Wall time of a trajectory, waiting included; None = no limit."""


class RunOver(TirError):
    """The run ends before its work does: a budget of the run is used up, or too many errors."""


@dataclass(frozen=True)
class Budget:
    """What a whole run may use; None = no limit."""

    turns: int | None = None
    calls: int | None = None
    tokens: int | None = None
    """Sampled tokens."""
    seconds: float | None = None
    errors: int | None = None
    """Trajectories that end in an error; one more ends the run."""


@dataclass(slots=True)
class Counts:
    """What a run has used up to now."""

    turns: int = 0
    calls: int = 0
    tokens: int = 0
    """Sampled tokens."""
    read: int = 0
    """Tokens of prompts, observations and hints, each counted once."""
    errors: int = 0
    running: int = 0
    """Trajectories under way."""
    error: str = ""
    """The latest error."""

    def check(self, budget: Budget) -> None:
        """Raise RunOver if anything of `budget` is used up."""
        for field in fields(budget):
            limit = getattr(budget, field.name)
            if limit is None or field.name == "seconds":
                continue
            if field.name == "errors" and self.errors > limit:
                raise RunOver(f"more than {limit} errors, the latest: {self.error}")
            if field.name != "errors" and getattr(self, field.name) >= limit:
                raise RunOver(f"the run's {limit} {field.name} are used up")
