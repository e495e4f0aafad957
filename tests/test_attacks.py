"""The sandbox against hostile programs: each is held here, and does harm where there is none."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the attacks need numpy")
if sys.platform != "linux":
    pytest.skip("the attacks are written for Linux", allow_module_level=True)

import attacks_harness as harness
from attacks_child import CONFIGS, descendants
from attacks_controls import works_without
from attacks_trap import Trap

SHARED = Path(__file__).parents[1] / "../shared/cases/attacks"
PROGRAMS = {program.name: program for program in harness.programs()}
TIMED = ("007_wait_without_cpu", "009_signals_ignored", "014_parallel_burn", "043_forged_report")
PAIRS = [
    (config, name)
    for config in CONFIGS
    for name, program in PROGRAMS.items()
    if config == "own" or program.expect != ("timeout",) or name in TIMED
]
"""Of the programs that only run out of time, four are enough to try in every configuration."""
THREADS = 2
"""Sandboxes, and controls, that run at once."""


Verdict = tuple[list[str], str | None]
"""What a program achieved that it must not, and why that is known."""


def run_all(config: str, names: list[str]) -> dict[str, Verdict]:
    """The verdicts on programs, one after the other in one sandbox."""
    with harness.Harness(config) as sandbox:
        programs = [PROGRAMS[name] for name in names]
        return {p.name: (sandbox.run(p), sandbox.known(p)) for p in programs}


def pairs(items: list[pytest.Item]) -> set[tuple[str, str]]:
    """The configurations and programs that the selected tests ask for."""
    found = set()
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and "config" in call.params and "name" in call.params:
            found.add((call.params["config"], call.params["name"]))
    return found


@pytest.fixture(scope="module")
def verdicts(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[dict[str, Verdict]]]]:
    """Configuration -> the verdicts on the programs that the selected tests ask for."""
    wanted: dict[str, list[str]] = {}
    for config, name in sorted(pairs(request.session.items)):
        if config in CONFIGS and not harness.unmet(config) and not PROGRAMS[name].missing():
            wanted.setdefault(config, []).append(name)
    with ThreadPoolExecutor(THREADS) as pool:
        yield {config: pool.submit(run_all, config, names) for config, names in wanted.items()}


@pytest.fixture(scope="module")
def controls(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[str | None]]]:
    """Name -> why its control shows nothing, for the selected tests."""
    wanted = {name for kind, name in pairs(request.session.items) if kind == "none"}

    def show(name: str) -> str | None:
        trap = Trap()
        try:
            return works_without(PROGRAMS[name], trap)
        finally:
            trap.close()

    with ThreadPoolExecutor(2 * THREADS) as pool:
        yield {name: pool.submit(show, name) for name in sorted(wanted)}


def test_the_corpus_is_large_and_every_program_says_what_must_hold() -> None:
    assert len(PROGRAMS) >= 80
    words = {"breach", "overruns", "floods", "leaves", "crash", "differs", "pool", "none"}
    for program in PROGRAMS.values():
        assert program.must and program.why, program.name
        assert program.control[-1] in words, program.name
        assert set(program.control[:-1]) <= {"root"}, program.name


@pytest.mark.parametrize(("config", "name"), PAIRS)
def test_an_attack_is_held(
    verdicts: dict[str, Future[dict[str, Verdict]]], config: str, name: str
) -> None:
    missing = harness.unmet(config) or PROGRAMS[name].missing()
    if missing:
        pytest.skip(missing)
    faults, known = verdicts[config].result()[name]
    if faults and known:
        pytest.xfail(known)
    assert not faults, PROGRAMS[name].must


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("config", ["none"])
def test_an_attack_does_harm_where_there_is_no_sandbox(
    controls: dict[str, Future[str | None]], config: str, name: str
) -> None:
    program = PROGRAMS[name]
    if program.control[-1] == "none":
        pytest.skip(f"no control: {program.why}")
    if "root" in program.control and os.getuid() != 0:
        pytest.skip("needs root")
    if program.missing():
        pytest.skip(str(program.missing()))
    assert controls[name].result() is None


@pytest.fixture(scope="module")
def sandbox() -> Iterator[harness.Harness]:
    with harness.Harness() as found:
        yield found


SHARED_PROGRAMS = harness.programs(SHARED)


@pytest.mark.skipif(not SHARED_PROGRAMS, reason="needs ../shared/cases/attacks")
@pytest.mark.parametrize("program", SHARED_PROGRAMS, ids=lambda program: program.name)
def test_an_attack_of_the_shared_cases_is_held(
    sandbox: harness.Harness, program: harness.Program
) -> None:
    assert not sandbox.run(program), program.must


HOSTILE_SOURCES = {
    "null byte": "print(1)\0print(2)",
    "lone surrogates": "print('\ud800', len('\udfff'))",
    "odd coding": "# coding: utf-7\nprint('+AEI-REACH')",
    "deep brackets": "(" * 50_000 + ")" * 50_000,
    "long chain": "x" + ".x" * 200_000,
    "many signs": "-" * 300_000 + "1",
    "long sum": "1" + "+1" * 300_000,
    "four megabytes": "#" * 4_000_000 + "\nprint('end')",
    "deep blocks": "".join(" " * k + "if 1:\n" for k in range(200)) + " " * 200 + "print(1)",
    "huge constant": "x = " + "9" * 1_000_000,
    "constant folding": "x = ((9 ** 9) ** 9) ** 9\ny = 'a' * (1 << 40)",
    "format braces": "f'" + "{" * 300 + "1" + "}" * 300 + "'",
    "control characters": "print(1)\r\x0c\x1a\x04\n\x7f",
    "not python": "</result>\n```\n<tool_call>{}",
    "nothing": "",
}


@pytest.mark.parametrize("name", HOSTILE_SOURCES)
def test_source_that_is_no_program_harms_its_own_call_alone(
    sandbox: harness.Harness, name: str
) -> None:
    must = "an answer in time, and a clean next call"
    assert not sandbox.run(harness.Program(name, HOSTILE_SOURCES[name], must))


def test_the_text_of_a_call_is_not_in_the_memory_of_the_next(sandbox: harness.Harness) -> None:
    secret = "can" + "ary-" + os.urandom(12).hex()
    said = sandbox.lines.ask(f"x = {secret!r} * 50; print(x)", harness.PATIENCE)
    assert secret in said["output"]
    scan = PROGRAMS["052_scan_own_memory"].source
    assert "nothing" in sandbox.lines.ask(scan, harness.PATIENCE)["output"]


def test_a_neighbour_of_hostile_programs_is_not_disturbed() -> None:
    names = ["083_kill_parent", "084_signal_neighbours", "014_parallel_burn", "087_parent_limits"]
    with harness.Harness(slots=2) as sandbox:
        hostile = [sandbox.trap.fill(PROGRAMS[n].source, sandbox.lines.process.pid) for n in names]
        quiet = "import time\ntime.sleep(0.2)\nprint(sum(range(10)))"
        codes = [code for pair in zip(hostile, [quiet] * 4, strict=True) for code in pair]
        replies = sandbox.lines.ask_all(codes, harness.PATIENCE)
    assert [reply["output"] for reply in replies[1::2]] == ["45"] * 4


def test_nothing_outlives_a_harness_that_is_killed() -> None:
    with harness.Harness() as sandbox:
        family = descendants(sandbox.lines.process.pid)
        sandbox.lines.send(PROGRAMS["007_wait_without_cpu"].source)
        time.sleep(0.2)
        family |= descendants(sandbox.lines.process.pid)
        os.kill(sandbox.lines.process.pid, signal.SIGKILL)
        end = time.monotonic() + 5
        while (alive := [pid for pid in family if running(pid)]) and time.monotonic() < end:
            time.sleep(0.02)
    assert family and not alive


def running(pid: int) -> bool:
    """True where `pid` is a process that has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] not in "ZX"


def test_a_container_without_landlock_is_refused_unless_weak_is_asked_for() -> None:
    missing = harness.unmet("container-user-no-landlock")
    if missing:
        pytest.skip(missing)
    with pytest.raises(harness.Gone, match="files stay open"):
        harness.Harness("container-user-no-landlock", layers="preferred")


def test_exec_reports_every_attack_of_a_file(tmp_path: Path) -> None:
    names = ["001_counting_loop", "043_forged_report", "117_segfault", "015_memory_list"]
    names += ["108_patched_builtins", "053_delete_files"]
    (tmp_path / "keep").mkdir()
    for name in ("keep/a.txt", "secret.txt"):
        (tmp_path / name).write_text("kept")
    path = tmp_path / "programs.jsonl"
    codes = {n: PROGRAMS[n].source.replace("@CAN@", str(tmp_path)) for n in names}
    codes["last"] = harness.HEALTH
    path.write_text("".join(json.dumps({"id": n, "code": c}) + "\n" for n, c in codes.items()))
    tir = [sys.executable, "-m", "tircli.cli", "exec", str(path), "--slots", "1"]
    done = subprocess.run(
        [*tir, "--cpu-seconds", "0.5"], stdout=subprocess.PIPE, check=False, timeout=60
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    found = {record["id"]: record["status"] for record in records}
    assert [found[n] for n in (*names[:4], "last")] == [
        "timeout",
        "timeout",
        "killed",
        "memory",
        "ok",
    ]
    assert list(found) == list(codes)
    assert (tmp_path / "secret.txt").read_text() == "kept"
