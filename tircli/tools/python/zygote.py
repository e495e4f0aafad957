"""The inside of a slot: a keeper that owns the namespaces, and the template that forks the calls.

The client starts `python -c BOOT CONFIG`. The keeper builds the namespaces and waits; its only
child, the template, imports and warms what programs use, locks itself in, and forks one child a
call. Neither ever sees a program's code or output: those are in files that only the child opens.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from typing import Any, NoReturn

from tircli.tools.python import child, lockin, wire
from tircli.tools.python.layers import (
    LINUX,
    PR_SET_CHILD_SUBREAPER,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    prctl,
    same_addresses,
)
from tircli.tools.python.wire import Kill, Request, Result

FLOOR_MS = 5
STACK = 8 << 20


class Closed(Exception):
    """The client has gone."""


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process so far; 0 where its clock can't be read."""
    if not LINUX:
        return 0.0
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


class Template:
    """Serves calls, one at a time, from the client's socket."""

    def __init__(self, control: socket.socket, cell: child.Cell, reaper: lockin.Reaper) -> None:
        self.control, self.cell, self.reaper = control, cell, reaper
        self.wake, write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        self.poll = select.poll()
        self.poll.register(self.wake, select.POLLIN)
        self.poll.register(control, select.POLLIN)
        self.cores = len(os.sched_getaffinity(0)) if LINUX else os.cpu_count() or 1

    def serve(self) -> None:
        """Answer requests until the client closes. Raises wire.Garbage."""
        while True:
            data, files, _, _ = socket.recv_fds(self.control, wire.READ, wire.N_FILES)
            if not data:
                return
            message = wire.unpack(data, Request, Kill)
            if isinstance(message, Request):
                if len(files) != wire.N_FILES:
                    raise wire.Garbage(f"a request with {len(files)} files")
                try:
                    result = self.call(message, files)
                except Closed:
                    return
                self.control.send(wire.pack(result))
                if result.last:
                    return

    def call(self, request: Request, files: list[int]) -> Result:
        """What came of one child."""
        ready, write = os.pipe()
        start = time.monotonic()
        pid = os.fork()
        if pid == 0:
            child.main(self.cell, request, [*files, write])
        for fd in (*files, write):
            os.close(fd)
        try:
            reason, status, usage = self._wait(pid, request, start)
            seconds = time.monotonic() - start
            reached = len(os.read(ready, 1))
        finally:
            os.close(ready)
            orphans = self.reaper.sweep(pid)
            with contextlib.suppress(BlockingIOError):
                os.read(self.wake, 4096)
        cpu = usage.ru_utime + usage.ru_stime
        kilobytes = usage.ru_maxrss if LINUX else usage.ru_maxrss // 1024
        last = int(self.cell.scratch is not None and not lockin.empty(self.cell.scratch))
        return Result(request.call, status, reason, reached, orphans, last, seconds, cpu, kilobytes)

    def _wait(
        self, pid: int, request: Request, start: float
    ) -> tuple[int, int, resource.struct_rusage]:
        """Why the child ended, its wait status and usage; kills it at a limit."""
        deadline = start + request.seconds
        while True:
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                return wire.DONE, status, usage
            left = deadline - time.monotonic()
            cpu_left = request.cpu_seconds - cpu_seconds(pid)
            reason = wire.WALL if left <= 0 else wire.CPU if cpu_left <= 0 else wire.DONE
            if reason == wire.DONE:
                soon = 1000 * min(left, cpu_left / self.cores)
                reason = self._events(request, max(soon, FLOOR_MS))
            if reason != wire.DONE:
                os.kill(pid, signal.SIGKILL)
                _, status, usage = os.wait4(pid, 0)
                return reason, status, usage

    def _events(self, request: Request, milliseconds: float) -> int:
        """ASKED where the client wants this call ended, else DONE."""
        for fd, _ in self.poll.poll(milliseconds):
            if fd == self.wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(self.wake, 4096)
                continue
            data = self.control.recv(wire.READ)
            if not data:
                raise Closed
            message = wire.unpack(data, Kill)
            if message.call == request.call:
                return wire.ASKED
        return wire.DONE


def template(config: dict[str, Any], state: lockin.Layers, control: socket.socket) -> NoReturn:
    """Become the template: prepare, lock in, say hello and serve."""
    code = 1
    try:
        cell, reaper = lockin.prepare(config, state)
        serving = Template(control, cell, reaper)
        lockin.self_test(cell, state)
        hello = {"layers": state, "modules": lockin.versions(), "base": cell.base}
        control.send(json.dumps(hello).encode())
        for fd in (0, 1, 2):
            os.dup2(cell.devnull, fd)
        serving.serve()
        code = 0
    except wire.Garbage:
        code = 3
    except Exception as error:
        traceback.print_exc()
        with contextlib.suppress(OSError):
            control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
    finally:
        os._exit(code)


def _client() -> int | None:
    """A descriptor that becomes readable when the client ends; None where there is no such."""
    try:
        return os.pidfd_open(os.getppid())
    except (AttributeError, OSError):
        return None


def main(text: str) -> NoReturn:
    """The keeper: build the namespaces, start the template, end when it or the client does."""
    config = json.loads(text)
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    soft = STACK if hard == resource.RLIM_INFINITY else min(STACK, hard)
    resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
    if LINUX and config["steady"]:
        with contextlib.suppress(OSError):  # refused by container engines: addresses then vary
            if same_addresses():
                os.execv(sys.executable, sys.orig_argv)
    control = socket.socket(fileno=config["control"])
    state = lockin.Layers(config["off"])
    client = _client()
    config["proc"] = lockin.build(config, state)
    keeper = os.getpid()
    pid = os.fork()
    if pid == 0:
        if LINUX:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() not in (0, keeper):
            os._exit(1)
        template(config, state, control)
    control.close()
    os._exit(_keep(pid, client, config["proc"]))


def _keep(pid: int, client: int | None, proc: int | None) -> int:
    """Wait for the template; kill it where the client has ended or asks with SIGTERM."""
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(pid, signal.SIGKILL))
    if LINUX:
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        prctl(PR_SET_DUMPABLE, 0)
    if client is not None:
        own = os.pidfd_open(pid)
        watch = select.poll()
        watch.register(client, select.POLLIN)
        watch.register(own, select.POLLIN)
        if own not in [fd for fd, _ in watch.poll()]:
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    lockin.Reaper(False, proc).sweep(None)
    return os.waitstatus_to_exitcode(status) & 0xFF
