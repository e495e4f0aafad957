"""The layers one by one: each closes what it says, also where it stands alone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tircli.records import InputError
from tircli.tools.python import Job, Policy, Sandbox, Setup, from_options, layers, policy, seccomp
from tircli.tools.python.outcome import Outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the layers are Linux's")
SPACES = ("user", "mnt", "net", "ipc", "uts", "pid")


def outcomes(sources: list[str], off: tuple[str, ...] = (), **options: object) -> list[Outcome]:
    """What programs come to in a slot without the layers in `off`."""

    async def main() -> list[Outcome]:
        setup = Setup(off=off, defaults=False, **options)  # type: ignore[arg-type]
        sandbox = Sandbox(policy=Policy(weak=True), slots=1, setup=setup)
        try:
            return [await sandbox.run(Job(source)) for source in sources]
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


def need(*names: str) -> None:
    """Skip where this machine lacks one of the layers."""
    (outcome,) = outcomes(["1"])
    missing = {name: outcome.layers.get(name) for name in names}
    missing = {name: why for name, why in missing.items() if not why or isinstance(why, str)}
    if missing:
        pytest.skip(f"needs layers that are missing here: {missing}")


FILES = {
    "open('/etc/passwd')": "Error: ",
    "import os\nos.listdir('/')": "Error: ",
    "import os\nos.listdir('/proc')": "Error: ",
    "open('/tmp/tir-written', 'w')": "Error: ",
    "import sys\nopen(sys.prefix + '/tir-written', 'w')": "Error: ",
}


@pytest.mark.parametrize("alone", ["mnt", "landlock"])
def test_files_are_closed_by_either_layer(alone: str) -> None:
    need(alone)
    off = tuple({"mnt", "landlock", "seccomp"} - {alone})
    for outcome, error in zip(outcomes(list(FILES), off), FILES.values(), strict=True):
        assert outcome.status == "error", outcome
        assert error in str(outcome.exception)
    assert not Path("/tmp/tir-written").exists()


def test_python_and_null_stay_usable() -> None:
    done = outcomes(
        ["import colorsys, encodings.cp037\n1", "print(file=open('/dev/null', 'w'))\n1"]
    )
    assert [outcome.value for outcome in done] == ["1", "1"]


CALLS = {
    "os.fork()": "os.fork()",
    "execve": "os.execv('/bin/true', ['true'])",
    "a socket": "import socket\nsocket.socket()",
    "a datagram pair": "import socket\nsocket.socketpair(type=socket.SOCK_DGRAM)",
    "a signal to the template": "os.kill(os.getppid(), 0)",
    "a signal to all": "os.kill(-1, 0)",
    "another's session": "os.getsid(os.getppid())",
    "another's limits": "import resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "memfd_create": "os.memfd_create('x')",
    "chmod": "os.chmod('/dev/null', 0o777)",
    "a lock on a shared file": "import fcntl\nfcntl.flock(open(os.__file__), fcntl.LOCK_SH)",
    "raised limits": "import resource as r\nr.setrlimit(r.RLIMIT_NOFILE, (4096, 4096))",
}


def test_the_filter_alone_refuses_what_programs_do_not_need() -> None:
    need("seccomp")
    sources = [f"import os\n{source}" for source in CALLS.values()]
    for name, outcome in zip(CALLS, outcomes(sources, off=(*SPACES, "landlock")), strict=True):
        assert outcome.status == "error", (name, outcome)
        assert re.search(r"PermissionError|OSError|ValueError", str(outcome.exception)), name


def test_the_filter_lets_threads_and_pairs_of_streams_work() -> None:
    source = (
        "import socket, threading\na, b = socket.socketpair()\n"
        "t = threading.Thread(target=a.send, args=(b'hi',))\nt.start()\nt.join()\nb.recv(2)"
    )
    (outcome,) = outcomes([source])
    assert outcome.value == "b'hi'"


def test_programs_can_ask_for_versions() -> None:
    (outcome,) = outcomes(["import importlib.metadata as m\nm.version('pytest')"])
    assert outcome.value == repr(pytest.__version__)


def test_processes_left_behind_are_killed_without_any_filter() -> None:
    source = (
        "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n"
        "        os.setsid()\n        if os.fork(): os._exit(0)\n"
        "        time.sleep(60)\nos.getpid()"
    )
    for off in (("seccomp",), ("seccomp", *SPACES)):
        done = outcomes([source, "import os\nos.getpid()"], off)
        assert [outcome.status for outcome in done] == ["ok", "ok"]
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert f'"control": {os.getpid()}' not in left.stdout


def test_threads_are_bounded() -> None:
    source = (
        "import threading\nthreading.stack_size(65536)\nstop = threading.Event()\nn = 0\n"
        "try:\n    while n < 2000: threading.Thread(target=stop.wait).start(); n += 1\n"
        "except RuntimeError: pass\nprint(n)"
    )
    for off in ((), SPACES):
        (outcome,) = outcomes([source], off)
        assert int(outcome.stdout) < 1500, outcome.layers


def test_a_scratch_folder_is_empty_for_every_program_and_bounded() -> None:
    need("mnt")
    fill = "import os\nprint(os.listdir('.'))\nopen('x', 'wb').write(b'x' * (3 << 20))"
    deep = (
        "import os\nprint(os.listdir('.'))\nfor _ in range(1200):\n  os.mkdir('d'); os.chdir('d')"
    )
    done = outcomes([fill, deep, fill], scratch=2 << 20)
    assert [outcome.stdout for outcome in done] == ["[]\n"] * 3
    assert "No space left" in str(done[0].exception)


def test_a_program_sees_no_environment_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIR_SECRET", "s3cret")
    (outcome,) = outcomes(["import os\ndict(os.environ), open"])
    assert "s3cret" not in str(outcome.value)
    assert "MPLCONFIGDIR" not in str(outcome.value)


def test_what_is_importable_is_what_is_listed() -> None:
    source = "import pytest\npytest.__name__"
    assert outcomes([source])[0].status == "error"
    for imports in (("pytest",), ("*",)):
        assert outcomes([source], imports=imports)[0].value == "'pytest'"


NO_SPACES = """
import ctypes, struct, sys, errno, os
from tircli.tools.python import layers, seccomp
names = {"x86_64": (272, 165, 308), "aarch64": (97, 40, 268)}[os.uname().machine]
code = [(0x20, 0, 0, 0)]
for number in names:  # unshare, mount, setns
    code += [(0x15, 0, 1, number), seccomp.refuse(errno.EPERM)]
code += [(6, 0, 0, seccomp.ALLOW)]
layers.prctl(layers.PR_SET_NO_NEW_PRIVS, 1)
layers.install(seccomp.Filter(code))
from tircli.cli import main
sys.argv = ["tir", "exec", "-c", sys.argv[1], *sys.argv[2:]]
main()
"""


def exec_without_spaces(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NO_SPACES, code, *options], capture_output=True, text=True
    )


def test_where_namespaces_are_forbidden_the_other_layers_hold() -> None:
    need("landlock", "seccomp")
    done = exec_without_spaces("open('/etc/passwd')")
    record = json.loads(done.stdout)
    assert "PermissionError" in record["exception"]
    assert record["layers"]["mnt"] == "unshare: Operation not permitted"
    assert record["layers"]["landlock"] >= 1


def test_where_namespaces_are_forbidden_and_required_it_refuses() -> None:
    done = exec_without_spaces("1", "--sandbox", "required=ns")
    assert done.returncode == 2
    assert "layer mnt is required and missing: unshare: Operation not permitted" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("preferred", Policy()),
        ("weak", Policy(weak=True)),
        ("required=ns,landlock", Policy(("ns", "landlock"))),
    ],
)
def test_policies_by_name(text: str, expected: Policy) -> None:
    assert policy(text) == expected


@pytest.mark.parametrize("text", ["", "strong", "required", "required=", "required=ns,moat"])
def test_a_policy_that_is_none_lists_the_choices(text: str) -> None:
    with pytest.raises(InputError, match="preferred, weak or required=LAYER"):
        from_options(sandbox=text)


@pytest.mark.parametrize(
    ("column", "header", "pattern"),
    [
        (0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+) (\d+)"),
        (1, "/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+) (\d+)"),
    ],
)
def test_the_numbers_of_system_calls_are_the_kernels(
    column: int, header: str, pattern: str
) -> None:
    if not Path(header).exists():
        pytest.skip(f"needs {header}")
    known = dict(re.findall(pattern, Path(header).read_text()))
    known.setdefault("newfstatat", known.get("fstatat"))
    table = seccomp.PLAIN | seccomp.WRITES | seccomp.CHECKED
    wrong = {
        name: (numbers[column], known.get(name))
        for name, numbers in table.items()
        if numbers[column] is not None and str(numbers[column]) != known.get(name)
    }
    assert wrong == {}


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_filter_fits_each_machine(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    code = seccomp.build()
    assert len(code) < 4096  # the kernel's limit
    assert code[1][3] == {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[machine]
    assert code[-1] == seccomp.refuse(1)
    for place, (kind, yes, no, _) in enumerate(code):
        if kind & 7 == 5:  # a jump stays inside
            assert place + 1 + max(yes, no) < len(code)


def test_capabilities_are_dropped_for_good() -> None:
    source = (
        "import os\nfrom tircli.tools.python import layers\nlayers.drop_capabilities()\n"
        "print(layers.capabilities(os.open('/proc', os.O_RDONLY)))"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr


def test_a_refused_call_names_itself() -> None:
    with pytest.raises(OSError, match="unshare"):
        layers.unshare(0x7FFFFFFF)
