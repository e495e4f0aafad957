"""Questions answered in processes of their own, which end at a limit of time or memory.

A server process loads sympy once and forks a child for each question. A limit ends the child alone:
- time is the child's processor time, so that a busy machine changes no verdict;
- memory is its address space, and where the system does not limit that its resident size.
Without fork (Windows) the server answers itself, and only the wall clock of the caller ends it.
The server ends with its caller. Questions come from any thread; a fork of the caller has servers of
its own; as many run as there are processors, four at most.
"""

from __future__ import annotations

import atexit
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tircli.records import EngineError

SECONDS = 2
MEMORY = 1 << 30
WALL_SECONDS = 30.0
START_SECONDS = 120.0
TASK = "tircli.answers.symbolic:same"
_CODE = "import sys; sys.path[:] = sys.argv[4:]; from tircli.answers import worker; worker.main()"
_OUT_OF_MEMORY = 77

Answer = Callable[[str, str], "bool | None"]


@dataclass(frozen=True)
class Reply:
    """The answer to a question; None when there is none, and why."""

    equal: bool | None
    why: str


class Worker:
    """A server for one question at a time; `task` names what answers, `module:function`."""

    def __init__(self, task: str = TASK, seconds: int = SECONDS, memory: int = MEMORY) -> None:
        self._limits = [task, str(seconds), str(memory)]
        self._server: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, left: str, right: str) -> Reply:
        """The server's answer. Raises EngineError if it does not start."""
        server = self._ready()
        assert server.stdin is not None
        try:
            server.stdin.write(json.dumps([left, right]) + "\n")
            server.stdin.flush()
            line = self._lines.get(timeout=WALL_SECONDS)
        except queue.Empty:
            self.close()
            return Reply(None, "out of time")
        except OSError:
            line = ""
        except BaseException:
            # An interrupted question must not leave its reply to the next one.
            self.close()
            raise
        if not line:
            self.close()
            return Reply(None, "crashed")
        return Reply(**json.loads(line))

    def close(self) -> None:
        """Kill the server, if there is one, and its child."""
        server, self._server = self._server, None
        if server is None:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)
        server.kill()
        server.wait()
        self._close_input(server)

    def leave(self) -> None:
        """Leave the server to the process that started it; called after a fork."""
        if self._server is not None:
            self._close_input(self._server)

    @staticmethod
    def _close_input(server: subprocess.Popen[str]) -> None:
        assert server.stdin is not None
        # What a dead server has not read cannot be flushed.
        with suppress(BrokenPipeError):
            server.stdin.close()

    def _ready(self) -> subprocess.Popen[str]:
        if self._server is not None and self._server.poll() is None:
            return self._server
        self.close()
        self._lines = queue.Queue()
        self._server = server = subprocess.Popen(
            [sys.executable, "-c", _CODE, *self._limits, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        threading.Thread(target=_pump, args=(server, self._lines), daemon=True).start()
        try:
            line = self._lines.get(timeout=START_SECONDS)
        except queue.Empty:
            line = ""
        problem = json.loads(line)["problem"] if line else "it gave no sign"
        if problem:
            self.close()
            raise EngineError(f"the symbolic worker does not start: {problem}")
        return server


def _pump(server: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Move the server's lines to the queue; an empty line marks the end."""
    assert server.stdout is not None
    with server.stdout as stream:
        for line in stream:
            lines.put(line)
    lines.put("")


class Pool:
    """Workers shared by threads; each answers one question at a time."""

    def __init__(self, size: int, start: Callable[[], Worker] = Worker) -> None:
        self._size, self._start = size, start
        self._free: list[Worker] = []
        self._all: list[Worker] = []
        self._changed = threading.Condition()

    def ask(self, left: str, right: str) -> Reply:
        """The answer of the next free worker; waiting for one counts against no limit."""
        with self._changed:
            while not self._free and len(self._all) >= self._size:
                self._changed.wait()
            if not self._free:
                self._free.append(self._start())
                self._all.append(self._free[-1])
            worker = self._free.pop()
        try:
            return worker.ask(left, right)
        finally:
            with self._changed:
                self._free.append(worker)
                self._changed.notify()

    def close(self) -> None:
        """Kill all servers."""
        for worker in self._all:
            worker.close()

    def leave(self) -> None:
        """Leave all servers to the process that started them."""
        for worker in self._all:
            worker.leave()


def _pool() -> Pool:
    return Pool(min(4, os.cpu_count() or 1))


_SHARED = _pool()
_LEFT: list[Pool] = []


def _after_fork() -> None:
    global _SHARED
    _SHARED.leave()
    # Kept, so that no destructor takes the parent's servers for lost ones.
    _LEFT.append(_SHARED)
    _SHARED = _pool()


atexit.register(lambda: _SHARED.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ask(left: str, right: str) -> Reply:
    """Ask a shared worker whether two formulas are equal."""
    return _SHARED.ask(left, right)


def main() -> None:
    """Answer questions, one JSON list a line, until the input ends."""
    task, seconds, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    out, sys.stdout = sys.stdout, sys.stderr

    def say(line: str) -> None:
        out.write(line + "\n")
        out.flush()

    try:
        answer = _load(task)
    except Exception as error:
        say(json.dumps({"problem": repr(error)}))
        raise
    say(json.dumps({"problem": None}))
    for line in sys.stdin:
        say(_forked(answer, line, seconds, memory) if hasattr(os, "fork") else _reply(answer, line))


def _load(task: str) -> Answer:
    """The function that a task names, its libraries loaded."""
    import importlib

    module, _, name = task.partition(":")
    loaded = importlib.import_module(module)
    answer: Answer = getattr(loaded, name)
    if hasattr(loaded, "warm"):
        loaded.warm()
    return answer


def _reply(answer: Answer, line: str) -> str:
    """The reply to a question as JSON."""
    equal: bool | None = None
    try:
        equal, why = answer(*json.loads(line)), "symbolic"
        why = why if equal is not None else "cannot be read"
    except MemoryError:
        why = "out of memory"
    except Exception as error:
        # sympy says in exceptions of every kind that it cannot compare two things.
        why = f"cannot be compared ({type(error).__name__})"
    return json.dumps({"equal": equal, "why": why})


def _forked(answer: Answer, line: str, seconds: int, memory: int) -> str:
    """The reply of a child that lives within the limits."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _limit(seconds, memory)
        os.write(write_end, _reply(answer, line).encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, encoding="utf-8") as stream:
        reply = stream.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    whys = {-signal.SIGXCPU: "out of time", _OUT_OF_MEMORY: "out of memory"}
    return reply or json.dumps({"equal": None, "why": whys.get(code, "crashed")})


def _limit(seconds: int, memory: int) -> None:
    """Bound the processor time and the memory of this process from now on."""
    import resource

    _lower(resource, resource.RLIMIT_CPU, seconds)
    if hasattr(resource, "RLIMIT_AS"):
        _lower(resource, resource.RLIMIT_AS, memory)
    unit = 1 if sys.platform == "darwin" else 1024

    def watch() -> None:
        while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit <= memory:
            time.sleep(0.05)
        os._exit(_OUT_OF_MEMORY)

    threading.Thread(target=watch, daemon=True).start()


def _lower(resource: Any, kind: int, value: int) -> None:
    """Set a soft limit, never above the hard one."""
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with suppress(ValueError, OSError):  # macOS has the constant and refuses the limit
        resource.setrlimit(kind, (bound, hard))


if __name__ == "__main__":
    main()
