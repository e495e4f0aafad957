"""Runs one program and says what came of it: value, traceback, output beyond what is passed on.

Standard library only; used inside the sandbox, and sent as text to a remote one.
"""

from __future__ import annotations

import ast
import io
import linecache
import os
import random
import sys
import traceback
import types

# A program may replace what builtins holds; what runs after it is taken before.
from builtins import bytes, getattr, id, isinstance, len, memoryview, min, repr, set  # noqa: UP029
from typing import Any

FILENAME = "<python>"
PREAMBLE = "<preamble>"
OK, ERROR, MEMORY = 0, 1, 101
"""Exit codes."""


class Meter(io.RawIOBase):
    """A binary stream to `fd` that passes on `cap` bytes, keeps the last `keep` and counts all."""

    def __init__(self, fd: int, cap: int, keep: int) -> None:
        self._fd, self.cap, self.keep = fd, cap, keep
        self.sent = self.total = 0
        self.tail = b""

    def writable(self) -> bool:
        """True."""
        return True

    def fileno(self) -> int:
        """The descriptor below."""
        return self._fd

    def write(self, data: Any) -> int:
        """Count `data` and pass on what there is room for."""
        with memoryview(data).cast("B") as view:
            size, room = len(view), self.cap - self.sent
            self.total += size
            done = 0
            while done < min(size, room):
                done += os.write(self._fd, view[done : min(size, room)])
            self.sent += done
            if done < size:
                self.tail = (self.tail + bytes(view[done:][-self.keep :]))[-self.keep :]
        return size

    def finish(self) -> int:
        """Pass on the kept end; how many bytes were left out before it."""
        kept, self.tail = self.tail, b""
        if kept:
            os.write(self._fd, kept)
        return self.total - self.sent - len(kept)


def text_stream(meter: Meter) -> io.TextIOWrapper:
    """A text stream over `meter` that holds nothing back."""
    return io.TextIOWrapper(
        meter,  # type: ignore[arg-type]
        encoding="utf-8",
        errors="backslashreplace",
        write_through=True,
    )


def clip(text: str, limit: int | None, keep: str, marker: str) -> str:
    """`text` itself, or its kept `limit` characters with `marker` where the rest was cut."""
    if limit is None or len(text) <= limit:
        return text
    head = {"head": limit, "tail": 0, "middle": (limit + 1) // 2}[keep]
    return text[:head] + marker + text[len(text) - (limit - head) :]


def cut_mark(left_out: int, total: int) -> str:
    """What stands where output was left out; the full size is in it."""
    return f"\n[... {left_out} of {total} bytes left out ...]\n"


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
    """The traceback of `error` and its causes, without the frames of this file."""
    shown = traceback.TracebackException.from_exception(error)
    todo, seen = [shown], set()
    while todo:
        part = todo.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        own = [frame for frame in part.stack if frame.filename != __file__]
        part.stack = traceback.StackSummary.from_list(own)
        todo += [other for other in (part.__cause__, part.__context__) if other is not None]
        todo += getattr(part, "exceptions", None) or []
    return "".join(shown.format())


def replay(cells: list[str], space: dict[str, Any], value: bool) -> None:
    """Run the earlier calls of a session again, for what they leave in `space`."""
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = text_stream(Meter(-1, 0, 1))
    try:
        for number, cell in enumerate(cells, 1):
            try:
                execute(cell, space, f"<call {number}>", value)
            except BaseException:  # as in its own call, where the model was told
                continue
    finally:
        sys.stdout, sys.stderr = streams


def printable(text: str) -> str:
    """`text` with lone surrogates written as escapes, so that UTF-8 can carry it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def run(job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """The exit code for the job's program, and its report: value or trace."""
    code, report = _outcome(job)
    for name, text in report.items():
        if text is not None:
            mark = cut_mark(len(text) - job["kept"], len(text))
            report[name] = printable(clip(text, job["kept"], job["keep"], mark))
    return code, report


def _outcome(job: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    random.seed(0)
    try:
        if job.get("preamble"):
            execute(job["preamble"], main.__dict__, PREAMBLE, value=False)
        if job.get("cells"):
            replay(job["cells"], main.__dict__, job["value"])
        value = execute(job["source"], main.__dict__, FILENAME, job["value"])
    except MemoryError:
        return MEMORY, {}
    except SystemExit as error:
        if error.code in (None, 0):
            return OK, {}
        return ERROR, {"trace": trace_of(error)}
    except BaseException as error:  # whatever the program raised is its result
        return ERROR, {"trace": trace_of(error)}
    return OK, {"value": value}
