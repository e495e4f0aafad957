"""Questions answered in child processes that are killed at a limit of time or memory.

- Time is the child's own processor time, so that a busy machine changes no verdict; where the
  system has no such limit (Windows), and for a child that sleeps, the parent kills it by the wall
  clock.
- Memory is the child's address space where the system limits that (Linux), else its greatest
  resident size, watched from a thread; Windows has neither.
- A child ends when its parent is gone. A fork of the parent starts children of its own.
- The questions come from any thread; as many children run as there are processors, four at most.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from tircli.records import EngineError

SECONDS = 3
MEMORY = 1 << 30
WALL_SECONDS = 20.0
START_SECONDS = 120.0
TASK = "tircli.answers.symbolic:same"
_CODE = "import sys; sys.path[:] = sys.argv[4:]; from tircli.answers import worker; worker.main()"


@dataclass(frozen=True)
class Reply:
    """A child's answer; None when it has none, and why."""

    equal: bool | None
    why: str


class Worker:
    """A child process that answers one question at a time: `task` names `module:function`."""

    def __init__(self, task: str = TASK, seconds: int = SECONDS, memory: int = MEMORY) -> None:
        self._task, self._seconds, self._memory = task, seconds, memory
        self._child: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, left: str, right: str) -> Reply:
        """The child's answer. Raises EngineError if the child does not start."""
        child = self._ready()
        try:
            assert child.stdin is not None
            child.stdin.write(json.dumps([left, right]) + "\n")
            child.stdin.flush()
            line = self._lines.get(timeout=WALL_SECONDS)
        except queue.Empty:
            self.close()
            return Reply(None, "out of time")
        except OSError:
            line = ""
        if not line:
            return Reply(None, self._death())
        answer = json.loads(line)
        if "error" in answer:
            self.close()
            return Reply(None, answer["error"])
        return Reply(answer["equal"], "symbolic")

    def close(self) -> None:
        """Kill the child, if there is one."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.wait()
            assert child.stdin is not None
            child.stdin.close()

    def _death(self) -> str:
        """Why the child is gone."""
        assert self._child is not None
        code = self._child.wait()
        self.close()
        timed = hasattr(signal, "SIGXCPU") and code in (-signal.SIGXCPU, -signal.SIGKILL)
        return "out of time" if timed else "out of memory" if code == _OUT_OF_MEMORY else "crashed"

    def _ready(self) -> subprocess.Popen[str]:
        if self._child is not None and self._child.poll() is None:
            return self._child
        self.close()
        limits = [self._task, str(self._seconds), str(self._memory)]
        self._lines = queue.Queue()
        self._child = child = subprocess.Popen(
            [sys.executable, "-c", _CODE, *limits, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        threading.Thread(target=_pump, args=(child, self._lines), daemon=True).start()
        try:
            line = self._lines.get(timeout=START_SECONDS)
        except queue.Empty:
            line = ""
        started = json.loads(line) if line else {"error": "no reply"}
        if "error" in started:
            self.close()
            raise EngineError(f"the symbolic worker does not start: {started['error']}")
        return child


class Pool:
    """Workers shared by threads; each answers one question at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[Worker] = []
        self._all: list[Worker] = []
        self._changed = threading.Condition()

    def ask(self, left: str, right: str) -> Reply:
        """The answer of the next free worker; waiting for one counts against no limit."""
        with self._changed:
            while not self._free and len(self._all) >= self._size:
                self._changed.wait()
            if not self._free:
                self._free.append(Worker())
                self._all.append(self._free[-1])
            worker = self._free.pop()
        try:
            return worker.ask(left, right)
        finally:
            with self._changed:
                self._free.append(worker)
                self._changed.notify()

    def close(self) -> None:
        """Kill all children."""
        for worker in self._all:
            worker.close()


def _pump(child: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Move the child's lines to the queue; an empty line marks the end."""
    assert child.stdout is not None
    with child.stdout as stream:
        for line in stream:
            lines.put(line)
    lines.put("")


def _pool() -> Pool:
    return Pool(min(4, os.cpu_count() or 1))


def _after_fork() -> None:
    """Leave the children to the parent process."""
    global _SHARED
    _SHARED = _pool()


_SHARED = _pool()
atexit.register(lambda: _SHARED.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def ask(left: str, right: str) -> Reply:
    """Ask a shared worker whether two formulas are equal."""
    return _SHARED.ask(left, right)


_OUT_OF_MEMORY = 77


def _limit_memory(size: int) -> None:
    """Bound the address space, and watch the resident size and the parent."""
    parent = os.getppid()
    try:
        import resource
    except ImportError:  # Windows
        return
    if hasattr(resource, "RLIMIT_AS"):
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    unit = 1 if sys.platform == "darwin" else 1024

    def watch() -> None:
        while os.getppid() == parent:
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit > size:
                os._exit(_OUT_OF_MEMORY)
            time.sleep(0.1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _limit_time(seconds: int) -> None:
    """Let the system kill this process after some more seconds of processor time."""
    try:
        import resource
    except ImportError:  # Windows
        return
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = math.ceil(time.process_time()) + seconds
    if hard == resource.RLIM_INFINITY or soft < hard:
        resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def main() -> None:
    """Answer questions, one JSON list a line, until the input ends."""
    task, seconds, memory = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    out, sys.stdout = sys.stdout, sys.stderr

    def say(**reply: object) -> None:
        out.write(json.dumps(reply) + "\n")
        out.flush()

    try:
        import importlib

        module, _, name = task.partition(":")
        loaded = importlib.import_module(module)
        answer = getattr(loaded, name)
        getattr(loaded, "warm", lambda: None)()
        _limit_memory(memory)
    except Exception as error:
        say(error=repr(error))
        raise
    say(ready=True)
    for line in sys.stdin:
        _limit_time(seconds)
        try:
            say(equal=answer(*json.loads(line)))
        except MemoryError:
            say(error="out of memory")
        except Exception as error:
            # What sympy cannot compare it says in exceptions of every kind: the pair is undecided.
            say(error=f"cannot be compared ({type(error).__name__})")


if __name__ == "__main__":
    main()
