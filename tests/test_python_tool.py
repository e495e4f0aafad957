"""The python tool: what a program's text, status and leftovers come to, by protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tircli import protocols
from tircli.tools import ToolResult, View
from tircli.tools.python import Limits, Policy, PythonTool, Sandbox, from_options, sessions, show
from tircli.tools.python.outcome import Outcome

SHORT = Limits(seconds=5, cpu_seconds=2, memory_mb=256)
Run = Callable[..., ToolResult]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def sandbox(loop: asyncio.AbstractEventLoop) -> Iterator[Sandbox]:
    """One slot for all tests; weak, as semantics are the same without a layer."""
    sandbox = Sandbox(SHORT, Policy(weak=True), slots=1)
    yield sandbox
    loop.run_until_complete(sandbox.aclose())


@pytest.fixture
def run(loop: asyncio.AbstractEventLoop, sandbox: Sandbox) -> Run:
    """The result of one program under a view and other limits."""

    def call(source: str, view: View | None = None, **limits: float) -> ToolResult:
        tool = PythonTool(view or View(), sandbox=sandbox)
        sandbox.limits = replace(SHORT, **limits)  # type: ignore[arg-type]
        return loop.run_until_complete(tool.run(source))

    return call


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
        ("if True:\n    7", ""),
        (
            "def f(n): return 1 if n < 2 else n * f(n - 1)\n[f(k) for k in range(5)]",
            "[1, 1, 2, 6, 24]",
        ),
        ("if __name__ == '__main__': print('main')", "main"),
        ("import sys\nprint('bye')\nsys.exit()\nprint('never')", "bye"),
        ("import os\nprint('bye')\nos._exit(0)", "bye"),
        ("import random\nrandom.random()", "0.8444218515250481"),
        ("import threading\nt = threading.Timer(0, print, ['t'])\nt.start()\nt.join()", "t"),
        ("from dataclasses import dataclass\n@dataclass\nclass P:\n  x: int\nP(1)", "P(x=1)"),
        ("def f(x: int): ...\nf.__annotations__", "{'x': <class 'int'>}"),
        ("import sys\nsys.stdout = None\n3", "3"),
        ("import builtins\nbuiltins.print = builtins.len = None\n3", "3"),
        ("import asyncio\nasync def f(): return 7\nasyncio.run(f())", "7"),
        ("from sympy import *\nx = symbols('x')\nintegrate(x**2, (x, 0, 3))", "9"),
        ("import numpy as np\nint(np.arange(4).sum())", "6"),
        ("import sys\nsys.stdin.read()", "''"),
        ("import inspect\ndef f(): pass\nprint(inspect.getsource(f))", "def f(): pass\n"),
    ],
)
def test_output_of_programs_that_succeed(run: Run, source: str, output: str) -> None:
    result = run(source)
    assert (result.output, result.status) == (output, "ok")


def test_value_is_hidden_where_the_view_says_so(run: Run) -> None:
    result = run("print(1)\n10 ** 5000", View(value=False))
    assert (result.output, result.status) == ("1", "ok")


def test_empty_text_and_preamble(run: Run) -> None:
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
def test_error_policies(run: Run, policy: str, output: str) -> None:
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
        ("import tircli", "ModuleNotFoundError: No module named 'tircli'"),
    ],
)
def test_errors(run: Run, source: str, start: str) -> None:
    result = run(source)
    assert result.status == "error"
    assert result.output.startswith(start)
    assert "tircli/tools" not in str(result.extra["trace"])


def test_a_chain_of_errors_shows_the_programs_frames_alone(run: Run) -> None:
    source = "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError(2) from e"
    trace = run(source, View(error="traceback")).output
    assert trace.count('File "<python>"') == trace.count("File ") == 2
    assert trace.index("ZeroDivisionError") < trace.index("KeyError: 2")


def test_cpu_limit_keeps_partial_output(run: Run) -> None:
    result = run("print('go', end='')\nwhile True: pass", cpu_seconds=0.5)
    assert result.status == "timeout"
    assert result.output == "go\nTimeoutError: the code ran longer than 0.5 seconds"
    assert 0.5 <= result.extra["cpu_seconds"] < 1.5


def test_wall_limit_keeps_partial_output(run: Run) -> None:
    result = run("import time\nprint('go')\ntime.sleep(60)", seconds=0.7)
    assert result.output == "go\nTimeoutError: the code ran longer than 0.7 seconds"
    assert 0.7 <= result.seconds < 3
    assert result.extra["cpu_seconds"] < 0.5


def test_memory(run: Run) -> None:
    result = run("print('go')\nx = bytearray(2 << 30)")
    assert result.status == "memory"
    assert result.output == "go\nMemoryError: the code used more than 256 MB of memory"


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_killed_by_a_signal(run: Run, name: str) -> None:
    result = run(f"import os, signal\nprint('go')\nos.kill(os.getpid(), signal.{name})")
    assert (result.output, result.status) == (f"go\nKilled: the code was ended by {name}", "killed")


def test_the_end_of_the_program_ends_its_threads_and_hooks(run: Run) -> None:
    source = (
        "import atexit, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "atexit.register(time.sleep, 60)\nprint('done')"
    )
    result = run(source)
    assert (result.output, result.status, result.seconds < 3) == ("done", "ok", True)


@pytest.mark.parametrize(
    ("keep", "output"), [("head", "0123.."), ("tail", "..6789"), ("middle", "01..89")]
)
def test_truncation_by_characters(run: Run, keep: str, output: str) -> None:
    view = View(limit=4, keep=keep, marker="..")
    assert show(view, Outcome("ok", stdout="0123456789\n")) == output
    assert run("'" + "x" * 9 + "'", View(limit=4, keep="head", marker="..")).output == "'xxx.."


@pytest.mark.parametrize(
    ("keep", "output"),
    [
        ("head", "a" * 100 + "\n[... 4000941 of 4001041 bytes left out ...]"),
        ("tail", "[... 4000941 of 4001041 bytes left out ...]\n" + "b" * 99),
        ("middle", "a" * 50 + "\n[... 4000941 of 4001041 bytes left out ...]\n" + "b" * 49),
    ],
)
def test_the_mark_of_too_much_output_gives_its_size(run: Run, keep: str, output: str) -> None:
    # 40 lines of 100001 bytes and one of 1001 are 4001041; 100 are kept.
    source = "for _ in range(40): print('a' * 100000)\nprint('b' * 1000)"
    result = run(source, View(keep=keep), output_bytes=100)
    assert result.output.strip("\n") == output
    assert result.extra["truncated"]


def test_output_past_the_cap_is_counted_and_costs_no_room(run: Run) -> None:
    # 50000001 bytes, of which 65536 are kept.
    result = run("print('x' * 50_000_000)", memory_mb=512, output_bytes=65536)
    assert result.status == "ok"
    assert result.output.endswith("\n[... 49934465 of 50000001 bytes left out ...]")
    assert len(result.output) < 66000


def test_a_long_value_is_cut_where_it_is_made(run: Run) -> None:
    result = run("'c' * 10**7", View(keep="middle"), output_bytes=100)
    assert "[... 9999902 of 10000002 bytes left out ...]" in result.output


def test_bytes_and_surrogates(run: Run) -> None:
    source = "import sys\nsys.stdout.buffer.write(b'\\xff\\x00')\nprint('\\ud835', 'é')\n'\\ud835'"
    result = run(source)
    assert (result.output, result.status) == ("\ufffd\x00\\ud835 é\n'\\ud835'", "ok")
    assert result.output.encode("utf-8")


def test_every_call_begins_alike(run: Run) -> None:
    source = (
        "import random, numpy as np\n"
        "print(hash('a'), random.random(), np.random.rand(), list({'b', 'a', 'c'}))\n"
        "random.seed(9), np.random.seed(9)"
    )
    assert len({run(source).output for _ in range(3)}) == 1


PROTOCOLS = ["et", "torl", "verltool", "simpletir", "retool", "tools"]
"""In the order of the columns below."""
LATE = "a\nTimeoutError: the code ran longer than 0.5 seconds"
WHOLE = 'a\nTraceback (most recent call last):\n  File "<python>", line 2, in <module>\n'
MANY = "y" * 65536
ZERO = "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("source", "outputs"),
    [
        ("print('a')", ["a"] * 6),
        ("1 + 1", ["2", "", "", "", "", "2"]),
        ("x = 1", [""] * 6),
        ("print('é\U0001d465')", ["é\U0001d465"] * 6),
        ("print('a')\n1/0", [f"a\n{ZERO}", f"a\n{ZERO}", WHOLE, ZERO, f"a\n{ZERO}", f"a\n{ZERO}"]),
        ("print('a')\nwhile True: pass", [LATE] * 6),
        (
            "print('y' * 1_000_000, end='')",
            # 65536 are kept of 1000000; then the protocol's own limit, if any.
            [MANY, "y" * 128 + "...", MANY, "y" * 256 + "...", MANY, MANY],
        ),
    ],
    ids=["print", "value", "nothing", "unicode", "error", "timeout", "megabyte"],
)
def test_what_each_protocol_shows(run: Run, source: str, outputs: list[str]) -> None:
    for name, output in zip(PROTOCOLS, outputs, strict=True):
        shown = run(source, protocols.load(name).python, cpu_seconds=0.5, output_bytes=65536).output
        if len(output) < 1000 and output is not WHOLE and "..." not in output:
            assert shown == output, name
        else:
            assert shown.startswith(output), name


def test_simpletirs_final_answer_prints_a_box(run: Run) -> None:
    view = protocols.load("simpletir").python
    assert run("final_answer(3)", view).output == "\\boxed{3}"


def session_of(loop: asyncio.AbstractEventLoop, sandbox: Sandbox, *sources: str) -> list[str]:
    sandbox.limits = replace(SHORT, cpu_seconds=0.5)
    tool = PythonTool(View(session=True), sandbox=sandbox)
    return [loop.run_until_complete(tool.run(source, "t")).output for source in sources]


def test_a_session_keeps_what_its_calls_defined(loop, sandbox: Sandbox) -> None:  # type: ignore[no-untyped-def]
    outputs = session_of(
        loop, sandbox, "x = 2\nprint('once')", "y = x + 1\n1/0", "def f(): return x * y", "f()"
    )
    assert outputs == ["once", ZERO, "", "6"]


def test_a_session_goes_on_without_a_call_that_was_killed(loop, sandbox: Sandbox) -> None:  # type: ignore[no-untyped-def]
    outputs = session_of(loop, sandbox, "x = 2", "x = 3\nwhile True: pass", "x")
    assert outputs[1].endswith(sessions.DROPPED)
    assert outputs[2] == "2"


def test_a_session_that_takes_too_long_to_replay_is_given_up_and_says_so(  # type: ignore[no-untyped-def]
    loop, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "BUDGET", 1.0)  # 0.5 s of CPU; two of these take 0.6
    slow = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    outputs = session_of(loop, sandbox, "x = 2", slow, slow, "x")
    assert outputs[-1] == f"NameError: name 'x' is not defined\n{sessions.FORGOTTEN}"


def test_calls_without_session_share_nothing(loop, sandbox: Sandbox) -> None:  # type: ignore[no-untyped-def]
    tool = PythonTool(View(), sandbox=sandbox)
    loop.run_until_complete(tool.run("x = 1", "t"))
    assert loop.run_until_complete(tool.run("x", "t")).status == "error"


def test_sessions_forgotten_for_want_of_room_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT", 1)
    open_ = sessions.Sessions()
    assert [open_.take(name, SHORT)[1] for name in "aba"] == ["", "", sessions.FORGOTTEN]


def test_matplotlib_draws_without_a_screen() -> None:
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    source = (
        "import io\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nf = io.BytesIO()\n"
        "plt.savefig(f)\nf.getvalue()[1:4]"
    )

    async def draw() -> ToolResult:
        tool = from_options(sandbox="weak", sandbox_import="matplotlib.pyplot", slots=1)
        try:
            return await tool.run(source)
        finally:
            await tool.aclose()

    assert asyncio.run(draw()).output == "b'PNG'"
