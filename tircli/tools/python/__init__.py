"""The python tool: model-written programs in a sandbox, shown as a protocol wants it."""

from __future__ import annotations

from tircli.tools import ToolResult, View
from tircli.tools.python.outcome import Job, Limits, Outcome
from tircli.tools.python.sandbox import CORES, Policy, Sandbox, policy
from tircli.tools.python.semantics import show
from tircli.tools.python.slot import Setup

__all__ = [
    "Job",
    "Limits",
    "Outcome",
    "Policy",
    "PythonTool",
    "Sandbox",
    "Setup",
    "from_options",
    "show",
]

PLAIN = View()


class PythonTool:
    """Runs programs in a sandbox and shows what came of them by `view`."""

    name = "python"

    def __init__(
        self,
        view: View = PLAIN,
        seconds: float = 10.0,
        cpu_seconds: float = 5.0,
        memory_mb: int = 1024,
        output_bytes: int = 65536,
        slots: int = CORES,
        layers: str = "preferred",
        imports: tuple[str, ...] = (),
        off: tuple[str, ...] = (),
    ) -> None:
        self.view = view
        limits = Limits(seconds, cpu_seconds, memory_mb, output_bytes=output_bytes)
        self.sandbox = Sandbox(limits, policy(layers), slots, Setup(off, imports))

    @property
    def slots(self) -> int:
        """Programs that run at once."""
        return self.sandbox.n_slots

    async def outcome(self, source: str) -> tuple[str, Outcome]:
        """What the model sees, and the outcome behind it. Raises ToolUnavailable."""
        view = self.view
        outcome = await self.sandbox.run(Job(source, view.preamble, view.value, view.keep))
        return show(view, outcome), outcome

    async def run(self, source: str, session: str | None = None) -> ToolResult:
        """The result of one program. Raises ToolUnavailable where no slot can be had."""
        output, outcome = await self.outcome(source)
        return result(outcome, output)

    async def aclose(self) -> None:
        """Kill the calls that still run; the tool takes no more."""
        await self.sandbox.aclose()


def result(outcome: Outcome, output: str) -> ToolResult:
    """`outcome` in the terms of the contract."""
    extra = {
        "stderr": outcome.stderr,
        "value": outcome.value,
        "trace": outcome.exception,
        "exit_code": outcome.exit_code,
        "cpu_seconds": outcome.cpu_seconds,
        "max_rss_mb": outcome.max_rss_mb,
        "truncated": outcome.truncated,
    }
    return ToolResult(output, outcome.status, outcome.seconds, outcome.queued, extra)


def from_options(
    view: View = PLAIN,
    *,
    sandbox: str = "preferred",
    sandbox_import: str = "",
    seconds: float = 10.0,
    cpu_seconds: float = 5.0,
    memory_mb: int = 1024,
    output_kb: int = 64,
    slots: int | None = None,
) -> PythonTool:
    """The tool that command line options ask for. Raises InputError."""
    return PythonTool(
        view,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        memory_mb=memory_mb,
        output_bytes=output_kb << 10,
        slots=slots or CORES,
        layers=sandbox,
        imports=tuple(filter(None, sandbox_import.split(","))),
    )
