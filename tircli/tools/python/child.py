"""One call inside a slot: the forked child that locks itself in, runs the program and ends."""

from __future__ import annotations

import io
import json
import linecache
import os
import resource
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

from tircli.tools.python import layers, program
from tircli.tools.python.seccomp import Filter
from tircli.tools.python.wire import Request

JOB, OUT, ERR, REPORT, READY = 0, 1, 2, 3, 4
N_PLACES = 5
NOT_READY = 125
"""Exit code where the program was not reached; counts only without the ready byte."""
FINISHED = json.JSONEncoder().encode
"""Taken before a program can replace what the json module holds."""


@dataclass
class Cell:
    """What the template has prepared for its children."""

    filter: Filter | None
    scope: int | None
    """A Landlock ruleset that keeps signals inside."""
    alone: bool
    """The template is process 1 of its namespace: whatever is left there is killed with it."""
    others: int
    """Threads of other processes that RLIMIT_NPROC counts too."""
    base: int
    """Bytes of address space that the template takes."""
    parent: int
    devnull: int
    scratch: str | None
    """The folder that programs may write to, which is where they begin."""


def limits(cell: Cell, request: Request) -> None:
    """Bound this process for good."""
    cpu = int(request.cpu_seconds) + 1
    layers.set_limit(resource.RLIMIT_CPU, cpu, cpu + 1)
    layers.set_limit(resource.RLIMIT_AS, cell.base + request.memory)
    layers.set_limit(resource.RLIMIT_FSIZE, request.file)
    layers.set_limit(resource.RLIMIT_NOFILE, request.open_files)
    layers.set_limit(resource.RLIMIT_CORE, 0)
    layers.set_limit(resource.RLIMIT_MEMLOCK, 0)
    if layers.LINUX:
        layers.set_limit(resource.RLIMIT_MSGQUEUE, 0)
        layers.set_limit(resource.RLIMIT_NICE, 0)
        layers.set_limit(resource.RLIMIT_RTPRIO, 0)
    layers.set_limit(resource.RLIMIT_NPROC, request.processes + cell.others)


def enter(cell: Cell, request: Request, files: list[int]) -> None:
    """Make this fresh fork a locked-in child with `files` at 0..; nothing else stays open.

    The order matters: what a layer needs must come before it.
    """
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if not cell.alone:
        os.setsid()
        if layers.LINUX:
            layers.prctl(layers.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != cell.parent:
            os._exit(NOT_READY)
    if cell.scope is not None:
        layers.restrict(cell.scope)
    # First out of the way of 0.., then into place.
    high = [os.dup(fd) for fd in [*files, cell.devnull]]
    for place, fd in enumerate(high[:-1]):
        os.dup2(fd, place)
    os.dup2(high[-1], len(files))
    os.closerange(len(files) + 1, 1 << 20)
    limits(cell, request)
    if cell.scratch:
        os.chdir(cell.scratch)
    if cell.filter is not None:
        cell.filter.set_self(os.getpid())
        layers.install(cell.filter)


def read_job() -> dict[str, Any]:
    """The job that the client left on descriptor JOB, which is empty input from here on."""
    data = b""
    while chunk := os.pread(JOB, 1 << 20, len(data)):
        data += chunk
    os.dup2(READY + 1, JOB)
    os.close(READY + 1)
    job: dict[str, Any] = json.loads(data)
    return job


def main(cell: Cell, request: Request, files: list[int]) -> NoReturn:
    """Run the request's program and end this process."""
    code, end, err_fd = NOT_READY, os._exit, files[ERR]
    try:
        enter(cell, request, files)
        err_fd = ERR
        job = read_job()
        out, err = (program.Meter(fd, job["cap"], job["kept"]) for fd in (OUT, ERR))
        sys.stdout, sys.stderr = program.text_stream(out), program.text_stream(err)
        sys.stdin = io.TextIOWrapper(io.FileIO(JOB, closefd=False), encoding="utf-8")
        os.write(READY, b"r")
        os.close(READY)
        code, report = program.run(job)
        report["left_out"] = [out.finish(), err.finish()]
        os.write(REPORT, FINISHED(report).encode("ascii"))
    except Exception as error:
        if code == NOT_READY:  # else the program broke what the report needs: its own loss
            os.write(err_fd, f"{type(error).__name__}: {error}".encode())
    finally:
        end(code)


def rehearse() -> None:
    """Do once what every call does, so that the interpreter's own code is settled before a fork."""
    streams, main_module = (sys.stdout, sys.stderr), sys.modules["__main__"]
    for source in ("print(1)\n1 + 1", "def f(x): return x\nprint(f(2), 3)", "1 / 0") * 8:
        meter = program.Meter(-1, 0, 64)
        sys.stdout = sys.stderr = program.text_stream(meter)
        job = {"source": source, "value": True, "kept": 64, "keep": "head"}
        _, report = program.run(json.loads(json.dumps(job)))
        meter.tail = b""
        report["left_out"] = [meter.finish()]
        FINISHED(report)
    (sys.stdout, sys.stderr), sys.modules["__main__"] = streams, main_module
    linecache.clearcache()


def probe(cell: Cell, request: Request, attempts: list[Callable[[], object]]) -> NoReturn:
    """End with 0 where every attempt fails inside, else with the number of the first that works."""
    code, end = NOT_READY, os._exit
    try:
        enter(cell, request, [cell.devnull] * N_PLACES)
        code = 0
        for number, attempt in enumerate(attempts, 1):
            try:
                attempt()
            except OSError:
                continue
            code = number
            break
    finally:
        end(code)
