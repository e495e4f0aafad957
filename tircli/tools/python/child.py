"""Runs one program inside a child interpreter and reports on it; imports nothing of tircli."""

from __future__ import annotations

import ast
import json
import linecache
import math
import os
import random
import resource
import sys
import traceback
import types
from typing import Any

FILENAME = "<python>"
PREAMBLE = "<preamble>"
OPEN_FILES = 256


def clip(text: str, limit: int | None, keep: str, marker: str) -> str:
    """`text` itself, or its kept `limit` characters with `marker` where the rest was cut."""
    if limit is None or len(text) <= limit:
        return text
    head = {"head": limit, "tail": 0, "middle": (limit + 1) // 2}[keep]
    return text[:head] + marker + text[len(text) - (limit - head) :]


def set_limits(cpu_seconds: float, memory_mb: int, file_bytes: int) -> None:
    """Bound this process for good: it can't raise the limits again."""
    cpu = max(1, math.ceil(cpu_seconds))
    wanted = {
        resource.RLIMIT_CPU: (cpu, cpu + 1),
        resource.RLIMIT_AS: (memory_mb << 20, memory_mb << 20),
        resource.RLIMIT_FSIZE: (file_bytes, file_bytes),
        resource.RLIMIT_NOFILE: (OPEN_FILES, OPEN_FILES),
        resource.RLIMIT_CORE: (0, 0),
    }
    for kind, pair in wanted.items():
        most = resource.getrlimit(kind)[1]
        soft, hard = (n if most == resource.RLIM_INFINITY else min(n, most) for n in pair)
        resource.setrlimit(kind, (soft, hard))


def execute(source: str, space: dict[str, Any], filename: str, value: bool) -> str | None:
    """Run `source` in `space`; the repr of its last bare expression, or None."""
    lines = source.splitlines(keepends=True)
    linecache.cache[filename] = (len(source), None, lines, filename)
    tree: ast.Module = compile(
        source, filename, "exec", flags=int(ast.PyCF_ONLY_AST), dont_inherit=True
    )
    last = tree.body[-1] if value and tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, filename, "exec", dont_inherit=True), space)
    if not isinstance(last, ast.Expr):
        return None
    code = compile(ast.Expression(last.value), filename, "eval", dont_inherit=True)
    result = eval(code, space)
    return None if result is None else repr(result)


def trace_of(error: BaseException) -> str:
    """The traceback of `error`, without the frames of this file."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename not in (FILENAME, PREAMBLE):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames))


def attempt(job: dict[str, Any]) -> dict[str, Any]:
    """Run the job's preamble and program; their report: status, value and trace."""
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    random.seed(0)
    try:
        if job["preamble"]:
            execute(job["preamble"], main.__dict__, PREAMBLE, value=False)
        value = execute(job["source"], main.__dict__, FILENAME, job["value"])
    except MemoryError:
        return {"status": "memory"}
    except SystemExit as error:
        if error.code in (None, 0):
            return {"status": "ok"}
        return {"status": "error", "trace": trace_of(error)}
    except BaseException as error:  # whatever the program raised is its result
        return {"status": "error", "trace": trace_of(error)}
    return {"status": "ok", "value": value}


def send(fd: int, message: dict[str, Any]) -> None:
    """Write `message` as one line of ASCII JSON."""
    data = json.dumps(message).encode("ascii") + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def main() -> None:
    """Read the job from stdin, run it, report on the job's own pipe."""
    job = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.path[0] = os.getcwd()  # in place of this file's folder
    sys.argv[:] = [FILENAME]
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    fd, pid = job["fd"], os.getpid()
    os.set_inheritable(fd, False)
    set_limits(job["cpu_seconds"], job["memory_mb"], job["file_bytes"])
    send(fd, {"ready": True})
    report = attempt(job)
    if os.getpid() != pid:  # the program forked, and this is its child
        return
    for name in ("value", "trace"):
        if report.get(name) is not None:
            report[name] = clip(report[name], job["limit"], job["keep"], job["marker"])
    send(fd, report)


if __name__ == "__main__":
    main()
