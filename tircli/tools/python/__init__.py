"""The python tool: every call is a fresh, killable interpreter with its own limits.

This isolates time, memory and environment. It does NOT isolate files or the network: a program
reads and writes whatever the user of `tir` may, and can forge its own report. The process group
is killed after every call, but a process that moves to a session of its own escapes that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tircli.records import ToolUnavailable
from tircli.tools import ToolResult, View
from tircli.tools.python.child import clip

CHILD = Path(__file__).with_name("child.py")
FILE_BYTES = 64 << 20
SLOTS = os.cpu_count() or 1
CHUNK = 65536
PLAIN = View()


def show(
    view: View, stdout: str, value: str | None, trace: str | None, status: str, seconds: float
) -> str:
    """The text that the model sees for one result; `seconds` is the limit that was passed."""
    stdout = stdout.removesuffix("\n")
    trace = (trace or "").rstrip("\n")
    if status == "timeout":
        parts = [stdout, view.timeout.format(seconds=seconds)]
    elif status == "ok":
        parts = [stdout, value if view.value and value is not None else ""]
    else:
        whole = view.error.startswith("traceback")
        said = trace if whole or not trace else trace.splitlines()[-1]
        said = said or f"Error: the code ended with status {status}"
        parts = [said] if view.error.endswith("_only") else [stdout, said]
    text = "\n".join(part for part in parts if part)
    return clip(text, view.limit, view.keep, view.marker) if text else view.empty


def printable(text: str) -> str:
    """`text` with lone surrogates written as escapes, so that UTF-8 can carry it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


class Capture:
    """Reads a pipe to its end, and keeps no more than `cap` bytes of it."""

    def __init__(self, cap: int, keep: str = "head", marker: str = "") -> None:
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.head_cap = {"head": cap, "tail": 0, "middle": (cap + 1) // 2}[keep]
        self.tail_cap = cap - self.head_cap
        self.marker = marker
        self.head, self.tail = bytearray(), bytearray()
        self.lost = False

    def read(self) -> bool:
        """Take one chunk; False where there is nothing more to take now."""
        try:
            data = os.read(self.reader, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(self.reader)
            return False
        room = self.head_cap - len(self.head)
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > self.tail_cap:
            self.lost = True
            del self.tail[: len(self.tail) - self.tail_cap]
        return True

    def start(self) -> None:
        """Read in the background; the writing end belongs to the child alone from now on."""
        self.close_writer()
        asyncio.get_running_loop().add_reader(self.reader, self.read)

    def finish(self) -> None:
        """Take what is left in the pipe, without waiting for writers that escaped."""
        for _ in range(64):
            if not self.read():
                return

    def close_writer(self) -> None:
        """Close the writing end, once."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Close both ends."""
        self.close_writer()
        asyncio.get_running_loop().remove_reader(self.reader)
        os.close(self.reader)

    def text(self) -> str:
        """What was kept, with the marker where bytes were lost."""
        parts = [self.head.decode("utf-8", "replace"), self.tail.decode("utf-8", "replace")]
        return (self.marker if self.lost else "").join(parts)


@dataclass(slots=True)
class Ended:
    """How a child ended, before it is judged."""

    returncode: int
    timed_out: bool
    seconds: float
    stdout: str
    stderr: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    """The messages on the report pipe: `ready`, then the report."""
    lost: bool = False
    oom: bool = False
    """The machine killed something for memory meanwhile."""


def messages(text: str) -> list[dict[str, Any]]:
    """The JSON objects on the lines of `text`; a line that was cut or forged badly is left out."""
    found = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            message = json.loads(line)
            if isinstance(message, dict):
                found.append(message)
    return found


def oom_kills() -> int:
    """How many processes this machine has killed for memory; 0 where it doesn't say."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def kill_group(pid: int) -> None:
    """Kill whatever is left of the process group that `pid` leads."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def environment(home: str) -> dict[str, str]:
    """All that a program finds in os.environ."""
    threads = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
    env = {f"{name}_NUM_THREADS": "1" for name in threads}
    if "LD_LIBRARY_PATH" in os.environ:  # some interpreters don't start without it
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return env | {
        "PATH": os.defpath,
        "HOME": home,
        "TMPDIR": home,
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MPLBACKEND": "Agg",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
    }


class PythonTool:
    """Runs programs, each in a fresh interpreter of its own."""

    name = "python"

    def __init__(
        self,
        view: View = PLAIN,
        seconds: float = 10.0,
        cpu_seconds: float = 5.0,
        memory_mb: int = 1024,
        output_bytes: int = 65536,
        slots: int = SLOTS,
    ) -> None:
        self.view = view
        self.seconds = seconds
        self.cpu_seconds = cpu_seconds
        self.memory_mb = memory_mb
        self.output_bytes = output_bytes
        self._slots = asyncio.Semaphore(slots)
        self._alive: set[int] = set()
        self._closed = False

    async def run(self, source: str, session: str | None = None) -> ToolResult:
        """The result of one program; `session` plays no part, as nothing outlives a call.

        Raises ToolUnavailable where the interpreter can't be started.
        """
        asked = time.monotonic()
        async with self._slots:
            queued = time.monotonic() - asked
            if self._closed:
                raise ToolUnavailable("the python tool is closed")
            home = await asyncio.to_thread(self._folder)
            try:
                ended = await self._call(source, home)
            finally:
                shutil.rmtree(home, ignore_errors=True)
        if self._closed and ended.returncode == -signal.SIGKILL:
            raise ToolUnavailable("the python tool was closed during a call")
        if not any("ready" in message for message in ended.lines):
            said = ended.stderr.strip()[-500:] or f"exit code {ended.returncode}"
            raise ToolUnavailable(f"the python interpreter didn't start: {said}")
        return self._result(ended, queued)

    async def aclose(self) -> None:
        """Kill the calls that still run; the tool takes no more."""
        self._closed = True
        for pid in self._alive:
            kill_group(pid)

    def _folder(self) -> str:
        """A new empty folder for one call."""
        try:
            return tempfile.mkdtemp(prefix="tir-python-")
        except OSError as error:
            raise ToolUnavailable(f"no temporary folder for a program: {error}") from error

    def _job(self, source: str, fd: int) -> bytes:
        """What the child reads on stdin."""
        job = {
            "source": source,
            "preamble": self.view.preamble,
            "value": self.view.value,
            "fd": fd,
            "cpu_seconds": self.cpu_seconds,
            "memory_mb": self.memory_mb,
            "file_bytes": FILE_BYTES,
            "limit": self.output_bytes,
            "keep": self.view.keep,
            "marker": self.view.marker,
        }
        return json.dumps(job).encode("ascii")

    async def _call(self, source: str, home: str) -> Ended:
        """Run one child to its end, or to the end of its time."""
        keep, marker = self.view.keep, self.view.marker
        pipes: list[Capture] = []
        try:
            try:
                pipes.append(Capture(self.output_bytes, keep, marker))
                pipes.append(Capture(self.output_bytes, keep, marker))
                pipes.append(Capture(32 * self.output_bytes + CHUNK))
                start, before = time.monotonic(), oom_kills()
                process = await self._spawn(source, home, pipes)
            except OSError as error:
                raise ToolUnavailable(f"can't start {sys.executable}: {error}") from error
            timed_out = await self._wait(process, pipes)
            seconds = time.monotonic() - start
            for pipe in pipes:
                pipe.finish()
            out, err, report = pipes
            return Ended(
                returncode=process.returncode if process.returncode is not None else -9,
                timed_out=timed_out,
                seconds=seconds,
                stdout=out.text(),
                stderr=err.text(),
                lines=messages(report.text()),
                lost=out.lost,
                oom=oom_kills() > before,
            )
        finally:
            for pipe in pipes:
                pipe.close()

    async def _spawn(
        self, source: str, home: str, pipes: list[Capture]
    ) -> asyncio.subprocess.Process:
        """The started child. No -I: it drops PYTHONHASHSEED, and the environment is ours."""
        out, err, report = pipes
        with tempfile.TemporaryFile() as stdin:
            stdin.write(self._job(source, report.writer))
            stdin.seek(0)
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-s", "-u", str(CHILD)),
                stdin=stdin,
                stdout=out.writer,
                stderr=err.writer,
                pass_fds=(report.writer,),
                cwd=home,
                env=environment(home),
                start_new_session=True,
            )

    async def _wait(self, process: asyncio.subprocess.Process, pipes: list[Capture]) -> bool:
        """Wait for the child and kill its group; True where its time ran out."""
        self._alive.add(process.pid)
        try:
            for pipe in pipes:
                pipe.start()
            await asyncio.wait_for(process.wait(), self.seconds)
        except asyncio.TimeoutError:
            return True
        finally:
            kill_group(process.pid)
            await process.wait()
            self._alive.discard(process.pid)
        return False

    def _judge(self, ended: Ended) -> tuple[str, str | None]:
        """The status of a child and the trace to show for it."""
        known = ("ok", "error", "memory")
        report = next((m for m in ended.lines if m.get("status") in known), None)
        code = ended.returncode
        memory = f"MemoryError: the code used more than {self.memory_mb} MB of memory"
        if ended.timed_out or code == -signal.SIGXCPU:
            return "timeout", None
        if report is not None:
            status = str(report["status"])
            return status, memory if status == "memory" else report.get("trace")
        if code >= 0:
            said = f"SystemExit: the code ended the interpreter with exit code {code}"
            return ("error", said) if code else ("ok", None)
        if code == -signal.SIGKILL and ended.seconds >= self.cpu_seconds:
            return "timeout", None  # it ignored SIGXCPU and ran into the hard limit
        if (code == -signal.SIGKILL and ended.oom) or "bad_alloc" in ended.stderr:
            return "memory", memory
        return "killed", f"Killed: the code was ended by {signal.Signals(-code).name}"

    def _result(self, ended: Ended, queued: float) -> ToolResult:
        """What the call came to, in the terms of the contract."""
        status, trace = self._judge(ended)
        value = None
        if status == "ok":
            value = next((m["value"] for m in ended.lines if m.get("value") is not None), None)
        trace = None if trace is None else printable(str(trace))
        value = None if value is None else printable(str(value))
        limit = self.seconds if ended.timed_out else self.cpu_seconds
        return ToolResult(
            output=show(self.view, ended.stdout, value, trace, status, limit),
            status=status,
            seconds=ended.seconds,
            queued=queued,
            extra={
                "stderr": ended.stderr,
                "value": value,
                "trace": trace,
                "returncode": ended.returncode,
                "truncated": ended.lost,
            },
        )
