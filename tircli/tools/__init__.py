"""The contract of a tool, and the policy by which its result becomes text for the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class View:
    """How a protocol shows a python result to the model (SPEC 1.1)."""

    value: bool = True
    """Show the value of a last bare expression, unless it is None."""
    error: str = "last_line"
    """`last_line`: stdout, then the last traceback line; `traceback`: stdout, then the whole
    traceback; `last_line_only` / `traceback_only`: the same without stdout."""
    empty: str = ""
    """Text where there is nothing to show."""
    timeout: str = "TimeoutError: the code ran longer than {seconds:g} seconds"
    limit: int | None = None
    """Characters kept; None = all."""
    keep: str = "head"
    """Which part is kept: `head`, `tail` or `middle` (both ends)."""
    marker: str = "..."
    """Stands where text was cut."""
    preamble: str = ""
    """Code that runs before every program."""
    session: bool = False
    """The calls of one trajectory share their variables."""


@dataclass(slots=True)
class ToolResult:
    """What a call came to."""

    output: str
    """What the model sees, before the protocol wraps it."""
    status: str = "ok"
    """`ok | error | timeout | memory | killed | refused | unavailable` (SPEC 1.2)."""
    seconds: float = 0.0
    queued: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)


class Tool(Protocol):
    """Something a model can call."""

    name: str

    async def run(self, source: str, session: str | None = None) -> ToolResult:
        """The result of one call; `session` names the trajectory. Raises ToolUnavailable."""

    async def aclose(self) -> None:
        """Free what the tool holds."""
