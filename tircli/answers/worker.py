"""Symbolic comparison in a child process which can be killed."""

from __future__ import annotations

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
import time
from typing import Any

MEMORY = 1 << 30
START_LIMIT = 60.0


class Worker:
    """A lazily started child process that answers one symbolic question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, kind: str, left: str, right: str, limit: float) -> bool | None:
        """The child's answer; None when it failed, died or passed the limit (seconds)."""
        with self._lock:
            if not self._ready():
                return None
            try:
                self._send(json.dumps([kind, left, right]) + "\n")
                line = self._lines.get(timeout=max(limit, 0.01))
            except (OSError, queue.Empty):
                self._stop()
                return None
            if not line:
                self._stop()
                return None
            return bool(json.loads(line))

    def start(self) -> bool:
        """True when the child runs and has loaded its libraries."""
        with self._lock:
            return self._ready()

    def close(self) -> None:
        """Kill the child, if there is one."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Leave the child to the parent process, after a fork."""
        self._lock = threading.Lock()
        self._child = None

    def _send(self, line: str) -> None:
        assert self._child is not None and self._child.stdin is not None
        self._child.stdin.write(line)
        self._child.stdin.flush()

    def _ready(self) -> bool:
        if self._child is not None and self._child.poll() is None:
            return True
        self._stop()
        self._lines = queue.Queue()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tircli.answers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        args = (self._child, self._lines)
        threading.Thread(target=_pump, args=args, daemon=True).start()
        try:
            line = self._lines.get(timeout=START_LIMIT)
        except queue.Empty:
            line = ""
        if not line:
            self._stop()
        return bool(line)

    def _stop(self) -> None:
        if self._child is None:
            return
        self._child.kill()
        self._child.wait()
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child = None


def _pump(child: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Move the child's lines to the queue; an empty line marks the end."""
    assert child.stdout is not None
    with child.stdout as stream:
        for line in stream:
            lines.put(line)
    lines.put("")


_SHARED = Worker()
atexit.register(_SHARED.close)
os.register_at_fork(after_in_child=_SHARED.forget)


def warm() -> bool:
    """True when the shared worker is up (starting it may take some seconds)."""
    return _SHARED.start()


def ask(kind: str, left: str, right: str, deadline: float) -> bool | None:
    """Ask the shared worker; the deadline is a time.monotonic() value."""
    return _SHARED.ask(kind, left, right, deadline - time.monotonic())


def _expression(text: str) -> Any:
    """The sympy object math-verify reads in the text, or None."""
    import sympy
    from math_verify import LatexExtractionConfig, parse

    found = parse(
        f"${text}$",
        extraction_config=[LatexExtractionConfig()],
        parsing_timeout=None,
        raise_on_error=False,
    )
    found = [item for item in found if not isinstance(item, str)]
    if found and isinstance(found[0], sympy.Expr):
        units = {s: sympy.I for s in found[0].free_symbols if s.name == "i"}
        return found[0].xreplace(units) if units else found[0]
    return found[0] if found else None


def _zero(value: Any) -> bool:
    """True when a sympy expression is zero, identically in its symbols."""
    import sympy

    if value == 0:
        return True
    if value.free_symbols:
        return bool(sympy.simplify(value) == 0)
    return bool(value.equals(0))


def _same(left: Any, right: Any) -> bool:
    """True when two sympy objects are equal; numbers by their first 60 digits."""
    import sympy
    from math_verify import verify

    if not (isinstance(left, sympy.Expr) and isinstance(right, sympy.Expr)):
        options = {"timeout_seconds": None, "raise_on_error": False}
        return bool(verify(left, right, **options) and verify(right, left, **options))
    if left.has(sympy.zoo, sympy.nan) or right.has(sympy.zoo, sympy.nan):
        return False
    if left == right:
        return True
    if left.free_symbols != right.free_symbols:
        return False
    if left.has(sympy.I) or right.has(sympy.I):
        return _zero(sympy.expand(left - right))
    if not left.free_symbols:
        a, b = sympy.N(left, 60), sympy.N(right, 60)
        if a.is_infinite or b.is_infinite:
            return bool(a == b)
        return bool(abs(a - b) <= abs(a) * sympy.Float("1e-40"))
    return _zero(left - right)


def _near(left: Any, right: Any) -> bool:
    """True when the second, a written decimal, is within 1e-4 of the first."""
    import sympy

    if left.free_symbols or right.free_symbols:
        return False
    a, b = sympy.N(left, 30), sympy.N(right, 30)
    return bool(not left.is_integer and abs(a - b) <= abs(a) * sympy.Float("1e-4"))


def _scaled(left: Any, right: Any) -> bool:
    """True when two expressions differ by a constant factor other than zero."""
    import sympy

    if left == 0 or right == 0 or left.free_symbols != right.free_symbols:
        return False
    ratio = sympy.simplify(left / right)
    return not ratio.free_symbols and ratio.is_zero is False and ratio.is_finite is not False


def answer(kind: str, left: str, right: str) -> bool | None:
    """The answer to one question: `same`, `near` (decimal second) or `scaled`."""
    a, b = _expression(left), _expression(right)
    if a is None or b is None:
        return None
    return bool({"same": _same, "near": _near, "scaled": _scaled}[kind](a, b))


def main() -> None:
    """Answer questions, one JSON list a line, until the input ends."""
    import resource

    import math_verify  # noqa: F401

    sys.set_int_max_str_digits(4300) if hasattr(sys, "set_int_max_str_digits") else None
    answer("same", r"\frac{x}{2}", "0.5x")
    with open("/proc/self/statm") as file:
        base = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (base + MEMORY, base + MEMORY))
    out = sys.stdout
    sys.stdout = sys.stderr
    out.write("true\n")
    out.flush()
    for line in sys.stdin:
        try:
            result = answer(*json.loads(line))
        except Exception as error:
            sys.stderr.write(f"{error!r}\n")
            result = None
        out.write(json.dumps(result) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
