"""Programs run by a service of the user's own: `POST /run_code`, as SandboxFusion speaks it.

The program travels inside a short script that gives it the same semantics as the local sandbox.
Isolation, memory and CPU time are the service's affair; its word on status and time is taken.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import secrets
import time
from typing import Any

import msgspec

from tircli.records import InputError
from tircli.tools.python import program
from tircli.tools.python.outcome import Job, Limits, Outcome, clipped, job_text

SCRIPT = """
import json, os, sys
space = {{"__name__": "program", "__file__": "<sandbox>"}}
exec(compile({runner!r}, "<sandbox>", "exec"), space)
write = sys.stderr.write
code, report = space["run"](json.loads({job!r}))
sys.stdout.flush()
write("\\n{token}" + json.dumps(report) + "\\n")
sys.stderr.flush()
os._exit(code)
"""
GRACE = 20.0
"""Seconds beyond the wall limit before a request is given up (the service may queue it)."""


class _Run(msgspec.Struct):
    status: str = "Finished"
    execution_time: float | None = None
    return_code: int | None = None
    stdout: str | None = None
    stderr: str | None = None


class _Reply(msgspec.Struct):
    status: str
    message: str = ""
    run_result: _Run | None = None


class RemoteSandbox:
    """The interface of Sandbox over a service at `url`; at most `slots` requests at once."""

    def __init__(self, url: str, limits: Limits, slots: int) -> None:
        import httpx

        if not url.startswith(("http://", "https://")):
            raise InputError(f'--sandbox-url: "{url}"; write http://HOST:PORT')
        self.limits, self.n_slots = limits, slots
        self.layers: dict[str, Any] = {"remote": url}
        self._url = url.rstrip("/").removesuffix("/run_code") + "/run_code"
        self._free = asyncio.Semaphore(slots)
        self._client = httpx.AsyncClient(timeout=limits.seconds + GRACE)

    async def start(self) -> None:
        """Nothing: the service is there or not when a program comes."""

    async def run(self, job: Job, limits: Limits | None = None) -> Outcome:
        """The outcome of one program; `unavailable` where the service fails."""
        import httpx

        limits = limits or self.limits
        token = secrets.token_hex(16)
        text = json.dumps(job_text(job, limits))
        script = SCRIPT.format(runner=inspect.getsource(program), job=text, token=token)
        asked = time.monotonic()
        async with self._free:
            began = time.monotonic()
            request = {
                "code": script,
                "language": "python",
                "run_timeout": limits.seconds,
                "memory_limit_MB": limits.memory_mb,
            }
            try:
                reply = await self._client.post(
                    self._url, json=request, timeout=limits.seconds + GRACE
                )
                reply.raise_for_status()
                found = msgspec.json.decode(reply.content, type=_Reply)
            except (httpx.HTTPError, msgspec.DecodeError) as error:
                said = f"{self._url}: {type(error).__name__}: {error}"
                outcome = Outcome("unavailable", exception=said)
            else:
                outcome = _outcome(found, token, job, limits)
        outcome.seconds = outcome.seconds or time.monotonic() - began
        outcome.queued, outcome.layers = began - asked, self.layers
        return outcome

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def _outcome(reply: _Reply, token: str, job: Job, limits: Limits) -> Outcome:
    run = reply.run_result
    if run is None or reply.status == "SandboxError" or run.status == "Error":
        return Outcome("unavailable", exception=f"the sandbox service: {reply.message[-300:]}")
    stderr, mark, tail = (run.stderr or "").partition(f"\n{token}")
    try:
        report = msgspec.json.decode(tail.partition("\n")[0] if mark else b"{}")
    except msgspec.DecodeError:
        report = {}
    outcome = Outcome("ok", seconds=run.execution_time or 0.0, exit_code=run.return_code)
    trace, value = report.get("trace"), report.get("value")
    if run.status == "TimeLimitExceeded":
        outcome.status, outcome.limit = "timeout", limits.seconds
    elif run.return_code == program.MEMORY:
        outcome.status = "memory"
        outcome.exception = f"MemoryError: the code used more than {limits.memory_mb} MB of memory"
    elif run.return_code:
        ended = f"the code ended the interpreter with exit code {run.return_code}"
        outcome.status = "error" if run.return_code > 0 else "killed"
        outcome.exception = trace if isinstance(trace, str) else f"SystemExit: {ended}"
    elif isinstance(value, str):
        outcome.value = value
    outcome.stdout, cut = clipped(run.stdout or "", limits.output_bytes, job.keep)
    outcome.stderr, also = clipped(stderr, limits.output_bytes, job.keep)
    outcome.truncated = cut or also
    return outcome
