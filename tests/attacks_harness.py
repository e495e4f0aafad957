"""Runs the programs of tests/attacks against the sandbox, and without one, and looks for harm.

Line 1 of a program says what a right sandbox must do. Line 2 is `# control: HOW: ...`, what shows
that it harms where there is no sandbox: `breach` (it says BREACH, springs a trap or harms its
parent), `overruns`, `floods`, `leaves` (a process), `crash`, `differs` (two runs do), `pool` (it
harms a naive warm worker), `root` before one of them (only where root runs it), or `none` with the
reason. Then, where they apply: `# expect:` the statuses that are right, `# keeps:` text that must
be in the output, `# bounded:` the most characters of output, `# needs:` a machine, `# same:` twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks_child import CONFIGS, FLOOD, descendants
from attacks_trap import Trap, bait

CHILD = Path(__file__).with_name("attacks_child.py")
OWN = Path(__file__).with_name("attacks")
SECONDS, CPU_SECONDS = 3.0, 0.5
PATIENCE = 20.0
"""Seconds until a call that has not come back counts as hung, on a busy machine too."""
BREACH = re.compile(r"^(BREACH|PWNED).*", re.MULTILINE)

PLAIN_HEALTH = """
import colorsys, decimal, fractions, gc, json, math, os, random, re, signal, sys, threading
print(int("4") + 5, 6 * int("7"), len("abc"), sum(map(int, "123")), math.pi, json.dumps({"a": [1]}))
print(fractions.Fraction(1, 3) + 1, decimal.Decimal(1) / 3, re.findall("a+", "baab"))
print(colorsys.rgb_to_hls(1, 0, 0), hash((1, 2)), len(sorted(sys.path)), len(sys.meta_path))
print(sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled(), threading.active_count())
print(sorted(os.environ.items()), sys.gettrace(), sys.getprofile(), sys.dont_write_bytecode)
print(signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, []))
def is_open(fd):
    try:
        return os.fstat(fd) is not None
    except OSError:
        return False
print([fd for fd in range(64) if is_open(fd)], os.get_blocking(1), os.getpriority(0, 0))
sys.modules.pop("colorsys")
try:
    print(sorted(os.listdir(".")))
except OSError as error:
    print(type(error).__name__)
"healthy"
"""
HEALTH = (
    """
import random, numpy, sympy
x = sympy.Symbol("x")
print(sympy.integrate(x**2, x), sympy.factor(x**2 - 1), sympy.Integer(2) + 3, numpy.arange(4).sum())
print(hash("tir"), random.random(), numpy.random.rand(), numpy.geterr())
"""
    + PLAIN_HEALTH
)


FILES_OPEN = "neither a mount namespace nor Landlock: what the user may read is read"
OPEN = {
    ("mnt",): {"138_metadata_of_files": "Landlock does not cover stat and statfs"},
    ("mnt", "landlock"): dict.fromkeys(
        (
            "056_read_secret",
            "057_read_home",
            "058_environment",
            "059_proc_peek",
            "061_symbolic_links",
            "064_devices",
            "081_foreign_memory",
            "096_own_landlock",
        ),
        FILES_OPEN,
    ),
}
"""Layers that are missing -> the attacks that then get through, and why."""


@dataclass(frozen=True)
class Program:
    """One hostile program."""

    name: str
    source: str
    must: str
    control: tuple[str, ...] = ("none",)
    why: str = ""
    expect: tuple[str, ...] = ()
    keeps: str = ""
    bounded: int | None = None
    same: bool = False
    needs: str = ""

    def missing(self) -> str | None:
        """What this machine lacks for it, or None."""
        here = platform.machine()
        return f"needs {self.needs}, this is {here}" if self.needs not in ("", here) else None


def read(path: Path) -> Program:
    """The program in `path`, with what its first lines say."""
    source = path.read_text(encoding="utf-8")
    said = dict(re.findall(r"^# (\w+): (.*)$", source, re.MULTILINE))
    how, _, why = said.get("control", "none: not ours").partition(": ")
    return Program(
        name=path.stem,
        source=source,
        must=said["must"],
        control=tuple(how.split()),
        why=why,
        expect=tuple(said.get("expect", "").split()),
        keeps=said.get("keeps", ""),
        bounded=int(said["bounded"]) if "bounded" in said else None,
        same="same" in said,
        needs=said.get("needs", ""),
    )


def programs(folder: Path = OWN) -> list[Program]:
    """All programs of a folder, by name."""
    return [read(path) for path in sorted(folder.glob("*.py"))]


class Gone(Exception):
    """A process of the harness that does not answer."""


class Lines:
    """A process that answers each JSON line with one."""

    def __init__(self, command: list[str], reads: int | None = None, **popen: Any) -> None:
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in close)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if reads is None else self.log,
            stderr=self.log,
            start_new_session=True,
            **popen,
        )
        assert self.process.stdin is not None
        self.input = self.process.stdin
        self.reader = self.process.stdout.fileno() if self.process.stdout else reads
        self.rest = b""

    def ask(self, code: str, seconds: float) -> dict[str, Any]:
        """The answer; Gone where none comes, or none that is JSON."""
        return self.ask_all([code], seconds)[0]

    def ask_all(self, codes: list[str], seconds: float) -> list[dict[str, Any]]:
        """The answers to questions that are asked at once, in their order."""
        self.send(*codes)
        end = time.monotonic() + seconds
        return [self._answer(end) for _ in codes]

    def send(self, *codes: str) -> None:
        """Ask, and don't wait."""
        try:
            for code in codes:
                self.input.write(json.dumps({"code": code}).encode() + b"\n")
            self.input.flush()
        except BrokenPipeError as error:
            raise Gone(f"the process ended: {self.said()}") from error

    def _answer(self, end: float) -> dict[str, Any]:
        while b"\n" not in self.rest:
            if not select.select([self.reader], [], [], max(0, end - time.monotonic()))[0]:
                raise Gone(f"no answer in time: {self.said()}")
            data = os.read(self.reader, 1 << 16)
            if not data or len(self.rest) > 8 * FLOOD:
                raise Gone(f"the process ended or went mad: {self.said()}")
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        try:
            return dict(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise Gone(f"no JSON: {line[:100]!r}") from error

    def said(self) -> str:
        """The end of what it wrote on stderr."""
        self.log.seek(max(0, os.fstat(self.log.fileno()).st_size - 2000))
        return self.log.read().decode("utf-8", "replace")

    def close(self, patient: bool = True) -> None:
        """End it and all that it started."""
        with contextlib.suppress(BrokenPipeError):
            self.input.close()
        if patient:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        for pid in (*descendants(self.process.pid), self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        self.log.close()


class Harness:
    """One sandbox in one configuration, with a trap around it."""

    def __init__(self, config: str = "own", **options: Any) -> None:
        self.trap, self.config = Trap(), config
        self.options = {**CONFIGS[config].options, **options}
        self.start()

    def start(self) -> None:
        """A new process with the tool in it, shown to be healthy."""
        serve = [sys.executable, str(CHILD), "serve", str(SECONDS), str(CPU_SECONDS)]
        command = [*serve, json.dumps(self.options)]
        if self.config != "own":
            command = [sys.executable, str(CHILD), "confine", self.config, *command]
        with bait(self.trap) as popen:
            self.lines = Lines(command, **popen)
        try:
            self.healthy = self.lines.ask(HEALTH, 60)
            if self.healthy["status"] != "ok":
                raise Gone(f"the sandbox is not well at its start: {self.healthy}")
        except Gone:
            self.lines.close()
            self.trap.close()
            raise
        self.size = len(descendants(self.lines.process.pid))

    def run(self, program: Program) -> list[str]:
        """What the program achieved against the sandbox that it must not; empty where it held."""
        source = self.trap.fill(program.source, self.lines.process.pid)
        begun = time.monotonic()
        try:
            reply = self.lines.ask(source, PATIENCE)
            faults = self.judge(program, reply)
            if program.same and self.lines.ask(source, PATIENCE)["output"] != reply["output"]:
                faults.append("another text the second time")
            if time.monotonic() - begun > PATIENCE / 2:
                faults.append(f"took {time.monotonic() - begun:.1f} s")
            faults += self.trap.sprung()
            after = self.lines.ask(HEALTH, PATIENCE)
            if (after["status"], after["output"]) != ("ok", self.healthy["output"]):
                faults.append(f"the next call is not clean: {after}")
            faults += self.left()
        except Gone as error:
            faults = [f"the harness lost its tool: {error}", *self.trap.sprung()]
            self.lines.close()
            self.start()
        return faults

    def known(self, program: Program) -> str | None:
        """Why the program is known to get through where this sandbox lacks layers."""
        layers = self.healthy["layers"]
        for missing, names in OPEN.items():
            on = [n for n in missing if layers.get(n) and not isinstance(layers[n], str)]
            if not on and program.name in names:
                return names[program.name]
        return None

    def judge(self, program: Program, reply: dict[str, Any]) -> list[str]:
        """What is wrong with the reply itself."""
        whole, output = json.dumps(reply, ensure_ascii=False), str(reply["output"])
        stdout = str(reply["extra"].get("stdout") or "")
        faults = [line.group() for line in BREACH.finditer(output + "\n" + stdout)]
        if reply["status"] == "unavailable":
            faults.append(f"the sandbox died: {whole[:300]}")
        elif program.expect and reply["status"] not in program.expect:
            faults.append(f"status {reply['status']}, not {' or '.join(program.expect)}: {output}")
        if program.keeps not in output:
            faults.append(f"{program.keeps!r} is not in the output: {output[:300]!r}")
        if self.trap.secret in whole:
            faults.append(f"the secret is in the reply: {output[:300]}")
        if program.bounded is not None and len(output) > program.bounded:
            faults.append(f"{len(output)} characters of output")
        return faults

    def left(self) -> list[str]:
        """Processes that are left after a call, given a moment to go."""
        end = time.monotonic() + 3
        while len(now := descendants(self.lines.process.pid)) > self.size:
            if time.monotonic() > end:
                return [f"processes left: {now}"]
            time.sleep(0.02)
        return []

    def close(self) -> None:
        """End the sandbox, remove the trap."""
        self.lines.close()
        self.trap.close()

    def __enter__(self) -> Harness:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def unmet(config: str) -> str | None:
    """Why `config` can't be made here, or None."""
    if config == "own":
        return None
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return "needs Linux on x86_64 or aarch64"
    if os.getuid() != 0 and config == "user":
        return "is what this run is: an ordinary user"
    if os.getuid() != 0 and not (CONFIGS[config].user or not CONFIGS[config].container):
        return "needs root, to become a root with fewer capabilities"
    return None
