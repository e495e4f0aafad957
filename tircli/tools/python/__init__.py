"""The python tool: model-written programs in a sandbox, shown as a protocol wants it."""

from __future__ import annotations

from tircli.records import InputError, ToolUnavailable
from tircli.tools import ToolResult, View
from tircli.tools.python.outcome import Job, Limits, Outcome
from tircli.tools.python.remote import RemoteSandbox
from tircli.tools.python.sandbox import CORES, Policy, Sandbox, policy
from tircli.tools.python.semantics import show
from tircli.tools.python.sessions import Sessions, keep, room
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
        scratch_mb: int = 0,
        url: str | None = None,
        sandbox: Sandbox | None = None,
    ) -> None:
        """`sandbox`: one that others use too; all but `view` is then its own affair."""
        limits = Limits(seconds, cpu_seconds, memory_mb, output_bytes=output_bytes)
        self.view = view
        self.sandbox: Sandbox | RemoteSandbox
        if sandbox:
            self.sandbox = sandbox
        elif url:
            self.sandbox = RemoteSandbox(url, limits, slots)
        else:
            setup = Setup(off=off, imports=imports, scratch=scratch_mb << 20)
            self.sandbox = Sandbox(limits, policy(layers), slots, setup)
        self._sessions = Sessions()

    async def start(self) -> list[str]:
        """The layers that hold, by name. Raises InputError where the sandbox can't be had."""
        try:
            await self.sandbox.start()
        except ToolUnavailable as error:
            raise InputError(f"{error}; see tir doctor") from error
        found = self.sandbox.layers
        return sorted(
            name for name in found if name == "remote" or not isinstance(found[name], str)
        )

    async def outcome(self, source: str, session: str | None = None) -> tuple[str, Outcome]:
        """What the model sees, and the outcome behind it. Raises ToolUnavailable."""
        view = self.view
        job = Job(source, view.preamble, view.value, view.keep)
        if session is None or not view.session:
            outcome = await self.sandbox.run(job)
            return show(view, outcome), outcome
        state, lost = self._sessions.take(session, self.sandbox.limits)
        job.cells = tuple(state.cells)
        outcome = await self.sandbox.run(job, room(state, self.sandbox.limits))
        dropped = keep(state, source, outcome)
        return "\n".join(filter(None, [show(view, outcome), lost or dropped])), outcome

    async def run(self, source: str, session: str | None = None) -> ToolResult:
        """The result of one program; `session` names the trajectory. Raises ToolUnavailable."""
        output, outcome = await self.outcome(source, session)
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
    said = {key: value for key, value in extra.items() if value not in (None, "", False)}
    return ToolResult(output, outcome.status, outcome.seconds, outcome.queued, said)


def from_options(
    view: View = PLAIN,
    *,
    sandbox: str = "preferred",
    sandbox_url: str | None = None,
    sandbox_import: str = "",
    scratch_mb: int = 0,
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
        scratch_mb=scratch_mb,
        url=sandbox_url,
    )
