"""The python tool: what a program's text, status and leftovers come to."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tircli.records import ToolUnavailable
from tircli.tools import ToolResult, View
from tircli.tools.python import Capture, PythonTool, show


def run(source: str, view: View | None = None, **options: object) -> ToolResult:
    """The result of one program in a new tool."""

    async def call() -> ToolResult:
        tool = PythonTool(view or View(), **options)  # type: ignore[arg-type]
        try:
            return await tool.run(source)
        finally:
            await tool.aclose()

    return asyncio.run(call())


def alive(pid: int) -> bool:
    """True where `pid` is a process that still runs (a zombie doesn't)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def gone(pid: int) -> bool:
    """True where `pid` ends within a second."""
    until = time.monotonic() + 1
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.01)
    return not alive(pid)


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("print(6 * 7)", "42"),
        ("x = 20\nx + 1", "21"),
        ("print('a')\n'b'", "a\n'b'"),
        ("print('a\\n')", "a\n"),
        ("None", ""),
        ("x = 1", ""),
        ("", ""),
        (
            "def f(n): return 1 if n < 2 else n * f(n - 1)\n[f(k) for k in range(5)]",
            "[1, 1, 2, 6, 24]",
        ),
        ("if __name__ == '__main__': print('main')", "main"),
        ("import sys\nprint('bye')\nsys.exit()\nprint('never')", "bye"),
        ("import os\nprint('bye')\nos._exit(0)", "bye"),
        ("import random\nrandom.random()", "0.8444218515250481"),
        ("import threading\nthreading.Timer(0.1, print, ['late']).start()", "late"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nP(1)", "P(x=1)"),
        ("def f(x: int): ...\nf.__annotations__", "{'x': <class 'int'>}"),
    ],
)
def test_output_of_programs_that_succeed(source: str, output: str) -> None:
    result = run(source)
    assert (result.output, result.status) == (output, "ok")


def test_value_is_hidden_where_the_view_says_so() -> None:
    result = run("print(1)\n10 ** 5000", View(value=False))
    assert (result.output, result.status) == ("1", "ok")


def test_empty_text_and_preamble() -> None:
    assert run("x = 1", View(empty="[no output]")).output == "[no output]"
    assert run("print(k)", View(preamble="k = 3")).output == "3"


TRACE = (
    'Traceback (most recent call last):\n  File "<python>", line 2, in <module>\n'
    "    {}['k']\n    ~~^^^^^\nKeyError: 'k'"
)


@pytest.mark.parametrize(
    ("policy", "output"),
    [
        ("last_line", "before\nKeyError: 'k'"),
        ("last_line_only", "KeyError: 'k'"),
        ("traceback", "before\n" + TRACE),
        ("traceback_only", TRACE),
    ],
)
def test_error_policies(policy: str, output: str) -> None:
    result = run("print('before')\n{}['k']", View(error=policy))
    shown = "\n".join(line for line in result.output.split("\n") if set(line) - set(" ~^"))
    wanted = "\n".join(line for line in output.split("\n") if set(line) - set(" ~^"))
    assert (shown, result.status) == (wanted, "error")


@pytest.mark.parametrize(
    ("source", "start"),
    [
        ("1 +", "SyntaxError: "),
        ("print('\\ud800", "SyntaxError: "),
        ("x = '\ud835'", "UnicodeEncodeError: "),
        ("input()", "EOFError: "),
        ("10 ** 5000", "ValueError: Exceeds the limit"),
        ("print(10 ** 5000)", "ValueError: Exceeds the limit"),
        ("import sys\nsys.exit(3)", "SystemExit: 3"),
        ("import sys\nsys.exit('why')", "SystemExit: why"),
        ("import os\nos._exit(7)", "SystemExit: the code ended the interpreter with exit code 7"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def f(): f()\nf()", "RecursionError: "),
        ("class A:\n  def __repr__(self): return 1/0\nA()", "ZeroDivisionError: "),
        ("raise ValueError('\\ud835')", "ValueError: \\ud835"),
        ("open('big', 'wb').write(b'x' * (65 << 20))", "OSError: "),
    ],
)
def test_errors(source: str, start: str) -> None:
    result = run(source)
    assert result.status == "error"
    assert result.output.startswith(start)
    assert "child.py" not in str(result.extra["trace"])


def test_timeout_keeps_partial_output_and_leaves_no_process() -> None:
    source = (
        "import os, subprocess, time\n"
        "p = subprocess.Popen(['sleep', '60'])\n"
        "print(os.getpid(), p.pid, end=' ')\ntime.sleep(60)"
    )
    result = run(source, seconds=0.7)
    assert result.status == "timeout"
    assert 0.7 <= result.seconds < 3
    numbers, text = result.output.split("\n")
    assert text == "TimeoutError: the code ran longer than 0.7 seconds"
    assert all(gone(int(pid)) for pid in numbers.split())


def test_a_child_that_holds_the_pipe_does_not_outlive_the_call() -> None:
    result = run("import subprocess\nsubprocess.Popen(['sleep', '60']).pid")
    assert (result.status, result.seconds < 5) == ("ok", True)
    assert gone(int(result.output))


def test_a_fork_does_not_report_twice() -> None:
    result = run(
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\n'child' if not pid else 1"
    )
    assert (result.output, result.status) == ("1", "ok")


def test_cpu_limit() -> None:
    result = run("print('go')\nwhile True: pass", cpu_seconds=1)
    assert result.status == "timeout"
    assert result.output == "go\nTimeoutError: the code ran longer than 1 seconds"


def test_memory() -> None:
    result = run("print('go')\nx = bytearray(2 << 30)", memory_mb=256)
    assert result.status == "memory"
    assert result.output == "go\nMemoryError: the code used more than 256 MB of memory"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_killed_by_a_signal(name: str) -> None:
    result = run(f"import os, signal\nprint('go')\nos.kill(os.getpid(), signal.{name})")
    assert (result.output, result.status) == (f"go\nKilled: the code was ended by {name}", "killed")


@pytest.mark.parametrize(
    ("keep", "output"), [("head", "0123.."), ("tail", "..6789"), ("middle", "01..89")]
)
def test_truncation_by_characters(keep: str, output: str) -> None:
    view = View(limit=4, keep=keep, marker="..")
    assert show(view, "0123456789\n", None, None, "ok", 1) == output
    assert run("'" + "x" * 9 + "'", View(limit=4, keep="head", marker="..")).output == "'xxx.."


@pytest.mark.parametrize(
    ("keep", "output"), [("head", "a" * 100 + ".."), ("tail", "..b"), ("middle", "a" * 50 + "..")]
)
def test_output_beyond_the_cap_is_dropped_while_it_runs(keep: str, output: str) -> None:
    source = "for _ in range(40): print('a' * 100000)\nprint('b' * 1000)"
    result = run(source, View(keep=keep, marker=".."), output_bytes=100)
    assert result.output.startswith(output)
    assert result.extra["truncated"]
    value = run("'c' * 10**7", View(keep=keep, marker=".."), output_bytes=100)
    assert len(value.output) == 102


def test_bytes_and_surrogates() -> None:
    source = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00')\nprint('\\ud835', 'é')\n'\\ud835'"
    result = run(source)
    assert (result.output, result.status) == ("\ufffd\x00\\ud835 é\n'\\ud835'", "ok")
    assert result.output.encode("utf-8")


def test_environment_is_scrubbed_and_the_folder_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIR_SECRET", "s3cret")
    source = (
        "import os, sys\nprint(os.getcwd())\nprint(dict(os.environ))\nprint(hash('a'), sys.argv)"
    )
    first, second = run(source), run(source)
    folder, env, last = first.output.split("\n")
    assert "s3cret" not in env
    assert "'PYTHONHASHSEED': '0'" in env
    assert last == second.output.split("\n")[2]
    assert folder != second.output.split("\n")[0]
    assert Path(folder).parent == Path(tempfile.gettempdir())
    assert not Path(folder).exists()


def test_concurrent_runs_wait_for_a_slot() -> None:
    async def calls() -> list[ToolResult]:
        tool = PythonTool(slots=2)
        source = "import time\ntime.sleep(0.3)\n{}"
        return await asyncio.gather(*(tool.run(source.format(k)) for k in range(4)))

    results = asyncio.run(calls())
    assert [result.output for result in results] == list("0123")
    assert max(result.queued for result in results) >= 0.3
    assert min(result.queued for result in results) < 0.1


def test_cancelling_and_closing_kill_the_program(tmp_path: Path) -> None:
    async def call(how: str) -> int:
        note = tmp_path / how
        tool = PythonTool()
        source = f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()) + '.')\n"
        task = asyncio.create_task(tool.run(source + "time.sleep(60)"))
        while not (note.exists() and note.read_text().endswith(".")):
            await asyncio.sleep(0.01)
        if how == "cancel":
            task.cancel()
        else:
            await tool.aclose()
        with pytest.raises((asyncio.CancelledError, ToolUnavailable)):
            await task
        return int(note.read_text()[:-1])

    for how in ("cancel", "close"):
        assert gone(asyncio.run(call(how)))


def test_an_interpreter_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for executable in ("/nonexistent/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(ToolUnavailable):
            run("1")
    assert len(os.listdir("/proc/self/fd")) == before


def test_capture_keeps_both_ends() -> None:
    async def capture() -> str:
        pipe = Capture(4, "middle", "..")
        os.write(pipe.writer, b"0123456789")
        pipe.start()
        pipe.finish()
        pipe.close()
        return pipe.text()

    assert asyncio.run(capture()) == "01..89"
