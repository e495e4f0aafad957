"""The sandbox: programs in, outcomes out, over slots that start when needed and are replaced."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from tircli.records import InputError, ToolUnavailable
from tircli.tools.python.outcome import (
    MB,
    REPORT_BYTES,
    Job,
    Limits,
    Outcome,
    files_of,
    read_outcome,
)
from tircli.tools.python.slot import Setup, Slot, SlotDied, SlotFailed, oom_kills
from tircli.tools.python.wire import Request

CORES = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
SPACES = ("mnt", "net", "pid")
TRIES = 3


@dataclass(frozen=True)
class Policy:
    """Which layers must be there."""

    required: tuple[str, ...] = ()
    weak: bool = False
    """Run even where files or the network stay open."""

    def missing(self, layers: dict[str, Any]) -> str | None:
        """What is wrong with a slot that has `layers`; None if nothing."""

        def on(name: str) -> bool:
            return bool(layers.get(name)) and not isinstance(layers[name], str)

        for name in self.required:
            for part in SPACES if name == "ns" else (name,):
                if not on(part):
                    return f"layer {part} is required and missing: {layers.get(part, 'unknown')}"
        if not self.weak:
            if not (on("mnt") or on("landlock")):
                return "files stay open: neither a mount namespace nor Landlock can be had"
            if not (on("net") or on("seccomp")):
                return "the network stays open: neither a network namespace nor seccomp can be had"
        return None


def policy(text: str) -> Policy:
    """The policy that `--sandbox` names."""
    known = ("ns", "landlock", "seccomp", "uid", "user", "mnt", "net", "pid", "ipc", "uts", "caps")
    kind, _, names = text.partition("=")
    required = tuple(filter(None, names.split(",")))
    if kind == "required" and required and set(required) <= set(known):
        return Policy(required)
    if text == "preferred":
        return Policy()
    if text == "weak":
        return Policy(weak=True)
    raise InputError(
        f'--sandbox: "{text}"; write preferred, weak or required=LAYER,... of {", ".join(known)}'
    )


DEFAULTS, PREFERRED, PLAIN = Limits(), Policy(), Setup()


class Sandbox:
    """Runs programs in slots; a slot that dies is replaced and costs its own call alone."""

    def __init__(
        self,
        limits: Limits = DEFAULTS,
        policy: Policy = PREFERRED,
        slots: int = CORES,
        setup: Setup = PLAIN,
    ) -> None:
        self.limits, self.policy, self.setup = limits, policy, setup
        self.n_slots = slots
        self.layers: dict[str, Any] = {}
        """Layer -> True or version, or why it is missing; filled by the first slot."""
        self._idle: list[Slot] = []
        self._all: set[Slot] = set()
        self._waiters: deque[asyncio.Future[Slot]] = deque()
        self._starting: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def start(self) -> None:
        """Start one slot, so that the layers are known. Raises ToolUnavailable or InputError."""
        self._release(await self._take())

    async def run(self, job: Job, limits: Limits | None = None) -> Outcome:
        """The outcome of one program.

        Raises ToolUnavailable where no slot can be had; InputError where a layer is missing.
        """
        limits = limits or self.limits
        asked = time.monotonic()
        for number in range(1, TRIES + 1):
            slot = await self._take()
            queued = time.monotonic() - asked
            try:
                outcome = await self._call(slot, job, limits)
            except ConnectionError as error:  # it had died while idle: nothing was begun
                if number == TRIES:
                    raise ToolUnavailable(f"the sandbox: {error}") from error
                continue
            except SlotDied as error:
                outcome = Outcome("unavailable", exception=f"the sandbox failed: {error}")
            finally:
                self._release(slot)
            break
        outcome.queued, outcome.layers = queued, slot.layers
        return outcome

    async def _call(self, slot: Slot, job: Job, limits: Limits) -> Outcome:
        request = Request(
            call=0,
            seconds=limits.seconds,
            cpu_seconds=limits.cpu_seconds,
            memory=limits.memory_mb * MB,
            file=max(
                limits.output_cap + limits.output_bytes,
                REPORT_BYTES,
                limits.file_mb * MB if slot.setup.scratch else 0,
            ),
            open_files=limits.open_files,
            processes=limits.processes,
        )
        oom_kills_before = oom_kills()
        with files_of(job, limits) as files:
            result = await slot.call(request, files)
            outcome = read_outcome(files, result, job, limits)
        if outcome.status == "unavailable":
            slot.dead = True
        killed = outcome.exit_code == -signal.SIGKILL and outcome.status == "killed"
        if killed and oom_kills() > oom_kills_before:
            outcome.status = "memory"
            outcome.exception = "MemoryError: the machine had no memory left for the code"
        return outcome

    async def aclose(self) -> None:
        """End all slots, with what runs in them; the sandbox takes no more."""
        self._closed = True
        for task in self._starting:
            task.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*self._closing, *(slot.close() for slot in self._all))
        self._all.clear()
        self._idle.clear()
        self._fail(ToolUnavailable("the sandbox is closed"))

    async def _take(self) -> Slot:
        """A free slot; starts one where all are busy and more are allowed."""
        if self._closed:
            raise ToolUnavailable("the sandbox is closed")
        while self._idle:
            slot = self._idle.pop()
            if not slot.dead:
                return slot
            self._discard(slot)
        if len(self._all) + len(self._starting) < self.n_slots:
            self._start_one()
        waiter: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release(waiter.result())
            raise

    def _release(self, slot: Slot) -> None:
        """Hand a slot to the next waiter, or put it away; a dead one is replaced."""
        if slot.dead or self._closed:
            self._discard(slot)
            if any(not waiter.done() for waiter in self._waiters):
                self._start_one()
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(slot)
                return
        self._idle.append(slot)

    def _discard(self, slot: Slot) -> None:
        if slot in self._all:
            self._all.discard(slot)
            _background(slot.close(), self._closing)

    def _start_one(self) -> None:
        _background(self._begin(), self._starting)

    async def _begin(self) -> None:
        slot = Slot(self.setup)
        try:
            await slot.start()
            wrong = self.policy.missing(slot.layers)
            if wrong:
                await slot.close()
                raise InputError(
                    f"--sandbox: {wrong}; see tir doctor, or accept it with --sandbox weak"
                )
        except SlotFailed as error:
            self._fail(ToolUnavailable(f"the python sandbox didn't start: {error}"))
        except InputError as error:
            self._fail(error)
        else:
            self._all.add(slot)
            self.layers = slot.layers
            self._release(slot)

    def _fail(self, error: Exception) -> None:
        """Tell all waiters, where no slot is left that could serve them."""
        if self._all:
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_exception(error)


def _background(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
    """Do `work` beside the caller; it stands in `tasks` until it is done."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
