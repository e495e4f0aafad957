"""What a call is given and what it comes to: limits, job, outcome, and who is believed."""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tircli.tools.python import program, wire
from tircli.tools.python.wire import Result

MB = 1 << 20
REPORT_BYTES = 4 * MB


@dataclass(frozen=True)
class Limits:
    """What one call may use; the defaults are for mathematics."""

    seconds: float = 10.0
    """Wall time."""
    cpu_seconds: float = 5.0
    memory_mb: int = 1024
    """Beyond what python and the warm packages take."""
    processes: int = 64
    """Threads, as no program can start a process."""
    open_files: int = 256
    file_mb: int = 16
    """Largest file in the scratch folder."""
    output_bytes: int = 65536
    """Kept of each of stdout, stderr, value and traceback."""
    output_cap: int = 2 * MB
    """Passed on at most; beyond it output is counted and dropped."""


@dataclass
class Job:
    """A program and how it is to be run."""

    source: str
    preamble: str = ""
    value: bool = True
    """Report the value of a last bare expression."""
    keep: str = "head"
    """Which part of too much output is kept: `head`, `tail` or `middle`."""
    cells: Sequence[str] = ()
    """Earlier programs of the session, run again first."""


@dataclass
class Outcome:
    """What a program came to. Status, times and memory are what the kernel and the clocks say."""

    status: str
    """`ok | error | timeout | memory | killed | unavailable`."""
    stdout: str = ""
    stderr: str = ""
    value: str | None = None
    """The repr of the last bare expression."""
    exception: str | None = None
    """The traceback, or one line where there is none."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    queued: float = 0.0
    max_rss_mb: float = 0.0
    truncated: bool = False
    limit: float = 0.0
    """Seconds of the limit that was passed."""
    exit_code: int | None = None
    """Negative: minus the signal."""
    layers: dict[str, Any] = field(default_factory=dict)


def job_text(job: Job, limits: Limits) -> dict[str, Any]:
    """What the program's side is told."""
    return {
        "source": job.source,
        "preamble": job.preamble,
        "value": job.value,
        "keep": job.keep,
        "cells": list(job.cells),
        "cap": limits.output_cap,
        "kept": limits.output_bytes,
    }


@contextmanager
def files_of(job: Job, limits: Limits) -> Iterator[list[int]]:
    """The four files of a call, in memory where the system can: job, stdout, stderr, report."""
    fds: list[int] = []
    try:
        for _ in range(wire.N_FILES):
            fds.append(_memory_file())
        data = json.dumps(job_text(job, limits)).encode("ascii")
        while data:
            data = data[os.write(fds[0], data) :]
        yield fds
    finally:
        for fd in fds:
            os.close(fd)


def _memory_file() -> int:
    if sys.platform == "linux":
        return os.memfd_create("tir", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _text(fd: int, left_out: int, kept: int, keep: str) -> tuple[str, bool]:
    """The kept part of an output file, and whether more was written."""
    size = os.fstat(fd).st_size
    if size + left_out <= kept:
        return os.pread(fd, size, 0).decode("utf-8", "replace"), False
    head = {"head": kept, "tail": 0, "middle": (kept + 1) // 2}[keep]
    tail = min(kept - head, size)
    first, last = os.pread(fd, head, 0), os.pread(fd, tail, max(size - tail, 0))
    total = size + left_out
    mark = program.cut_mark(total - len(first) - len(last), total)
    return first.decode("utf-8", "replace") + mark + last.decode("utf-8", "replace"), True


class Report(msgspec.Struct):
    """What the program's side says. Nothing in it is trusted."""

    value: str | None = None
    trace: str | None = None
    left_out: tuple[int, int] = (0, 0)
    """Bytes of stdout and of stderr that were counted and dropped."""


def _report(fd: int) -> Report:
    """The report in a file; an empty one where it is none."""
    try:
        report = msgspec.json.decode(os.pread(fd, REPORT_BYTES, 0), type=Report)
    except (msgspec.DecodeError, RecursionError):
        return Report()
    return report if all(0 <= n < 1 << 60 for n in report.left_out) else Report()


def clipped(text: str, kept: int, keep: str) -> tuple[str, bool]:
    """`text` in at most `kept` characters and a mark, and whether it was longer."""
    mark = program.cut_mark(len(text) - kept, len(text))
    return program.clip(text, kept, keep, mark), len(text) > kept


def read_outcome(files: Sequence[int], result: Result, job: Job, limits: Limits) -> Outcome:
    """The outcome of a call from its result and its files."""
    _, out, err, report_fd = files
    report = _report(report_fd)
    stdout, cut = _text(out, report.left_out[0], limits.output_bytes, job.keep)
    stderr, also = _text(err, report.left_out[1], limits.output_bytes, job.keep)
    outcome = judge(result, report, stderr, limits)
    outcome.stdout, outcome.stderr, outcome.truncated = stdout, stderr, cut or also
    return outcome


def judge(result: Result, report: Report, stderr: str, limits: Limits) -> Outcome:
    """The outcome that the kernel's word and the report make; the report never decides a limit."""
    code = os.waitstatus_to_exitcode(result.status)
    outcome = Outcome(
        "ok",
        seconds=result.seconds,
        cpu_seconds=result.cpu_seconds,
        max_rss_mb=round(result.rss_kb / 1024, 1),
        exit_code=code,
    )
    spent = result.cpu_seconds >= limits.cpu_seconds
    too_much = f"MemoryError: the code used more than {limits.memory_mb} MB of memory"
    if not result.ready and result.reason != wire.ASKED:
        said = stderr.strip()[-300:] or f"exit code {code}"
        outcome.status, outcome.exception = "unavailable", f"the program was not reached: {said}"
    elif result.reason == wire.WALL:
        outcome.status, outcome.limit = "timeout", limits.seconds
    elif result.reason == wire.CPU or (code == -signal.SIGXCPU and spent):
        outcome.status, outcome.limit = "timeout", limits.cpu_seconds
    elif result.reason == wire.ASKED:
        outcome.status, outcome.exception = "unavailable", "the call was cancelled"
    elif code == 0:
        outcome.value = report.value
    elif code == program.MEMORY or (code == -signal.SIGABRT and "bad_alloc" in stderr):
        outcome.status, outcome.exception = "memory", too_much
    elif code == program.ERROR and report.trace is not None:
        outcome.status, outcome.exception = "error", report.trace
    elif code > 0:
        said = f"SystemExit: the code ended the interpreter with exit code {code}"
        outcome.status, outcome.exception = "error", said
    else:
        name = signal.Signals(-code).name
        outcome.status, outcome.exception = "killed", f"Killed: the code was ended by {name}"
    return outcome
