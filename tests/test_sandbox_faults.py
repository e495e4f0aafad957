"""What goes wrong around a call: the caller gets a status, and the next call works."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tircli.records import InputError, ToolUnavailable
from tircli.tools.python import Job, Limits, Policy, Sandbox, Setup, slot, wire
from tircli.tools.python.outcome import Outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc of Linux")
T = TypeVar("T")
LIGHT = Setup(defaults=False)
"""Starts in a moment: nothing here needs numpy or sympy."""
SLEEP = Job("import time\nprint('go')\ntime.sleep(60)")


def state(pid: int) -> str:
    """The kernel's letter for what `pid` does; X where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "X"


def alive(pid: int) -> bool:
    """True where `pid` is a process that still runs (a zombie doesn't)."""
    return state(pid) not in "ZX"


def gone(pids: list[int], seconds: float = 5) -> bool:
    """True where all of `pids` end within `seconds`."""
    until = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    return not any(map(alive, pids))


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def family(sandbox: Sandbox) -> list[int]:
    """Keeper, template and child of the only slot, as far as they are there."""
    pids = [next(iter(sandbox._all))._process.pid]
    while found := children(pids[-1]):
        pids.append(found[0])
    return pids


async def reached(sandbox: Sandbox) -> list[int]:
    """The family once SLEEP sleeps in it."""
    while len(pids := family(sandbox)) < 3 or state(pids[2]) != "S":
        await asyncio.sleep(0.01)
    return pids


def with_sandbox(body: Callable[[Sandbox], Coroutine[Any, Any, T]]) -> T:
    """The result of `body` with a sandbox of one slot."""

    async def main() -> T:
        sandbox = Sandbox(Limits(seconds=5), Policy(weak=True), 1, LIGHT)
        try:
            await sandbox.start()
            return await body(sandbox)
        finally:
            await sandbox.aclose()

    return asyncio.run(main())


async def hit(sandbox: Sandbox, strike: Callable[[list[int]], object]) -> list[Outcome]:
    """A call during which `strike` is done to the family, and the call after it."""
    call = asyncio.create_task(sandbox.run(SLEEP))
    pids = await reached(sandbox)
    strike(pids)
    first = await call
    second = await sandbox.run(Job("40 + 2"))
    left = pids if first.status == "unavailable" else pids[2:]
    assert await asyncio.to_thread(gone, left)
    return [first, second]


@pytest.mark.parametrize("member", [0, 1], ids=["keeper", "template"])
def test_a_slot_that_is_killed_is_unavailable_and_replaced(member: int) -> None:
    first, second = with_sandbox(lambda s: hit(s, lambda p: os.kill(p[member], signal.SIGKILL)))
    assert first.status == "unavailable"
    assert (second.status, second.value) == ("ok", "42")


def test_a_program_that_is_killed_from_outside_costs_its_own_call_alone() -> None:
    first, second = with_sandbox(lambda s: hit(s, lambda p: os.kill(p[2], signal.SIGKILL)))
    assert (first.status, first.stdout) == ("killed", "go\n")
    assert second.value == "42"


@pytest.mark.parametrize("stopped", [[1], [0, 1]], ids=["template", "keeper too"])
def test_a_slot_that_hangs_is_given_up_and_replaced(
    stopped: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slot, "GRACE", 0.5)

    async def body(sandbox: Sandbox) -> list[Outcome]:
        sandbox.limits = Limits(seconds=0.5)
        return await hit(sandbox, lambda p: [os.kill(p[i], signal.SIGSTOP) for i in stopped])

    first, second = with_sandbox(body)
    assert first.status == "unavailable"
    assert "did not answer" in str(first.exception)
    assert second.value == "42"


@pytest.mark.parametrize("data", [b"x", b"\0" * wire.SIZE, b"tirD" + b"\xff" * (wire.SIZE - 4)])
def test_garbage_from_the_slot_is_no_result(data: bytes) -> None:
    async def body(sandbox: Sandbox) -> list[Outcome]:
        call = asyncio.create_task(sandbox.run(SLEEP))
        pids = await reached(sandbox)
        next(iter(sandbox._all))._waiting.set_result(data)  # type: ignore[union-attr]
        outcomes = [await call, await sandbox.run(Job("40 + 2"))]
        assert await asyncio.to_thread(gone, pids)
        return outcomes

    first, second = with_sandbox(body)
    assert (first.status, second.value) == ("unavailable", "42")


@pytest.mark.parametrize("data", [b"x", b"\0" * wire.SIZE, wire.pack(wire.Kill(7)) + b"x"])
def test_garbage_to_the_slot_ends_it(data: bytes) -> None:
    async def body(sandbox: Sandbox) -> Outcome:
        pids = family(sandbox)
        next(iter(sandbox._all))._control.send(data)
        assert await asyncio.to_thread(gone, pids)
        return await sandbox.run(Job("40 + 2"))

    assert with_sandbox(body).value == "42"


def test_a_slot_that_dies_while_idle_costs_no_call() -> None:
    async def body(sandbox: Sandbox) -> list[Outcome]:
        os.kill(family(sandbox)[1], signal.SIGKILL)
        return [await sandbox.run(Job("40 + 2"))]

    (outcome,) = with_sandbox(body)
    assert (outcome.status, outcome.value) in (("ok", "42"), ("unavailable", None))


def test_cancelling_a_call_ends_its_program_and_keeps_the_slot() -> None:
    async def body(sandbox: Sandbox) -> tuple[list[int], list[int], Outcome]:
        call = asyncio.create_task(sandbox.run(SLEEP))
        pids = await reached(sandbox)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return pids, family(sandbox), await sandbox.run(Job("40 + 2"))

    before, after, outcome = with_sandbox(body)
    assert after == before[:2]
    assert outcome.value == "42"


def test_closing_ends_what_runs() -> None:
    async def main() -> list[int]:
        sandbox = Sandbox(policy=Policy(weak=True), slots=1, setup=LIGHT)
        await sandbox.start()
        call = asyncio.create_task(sandbox.run(SLEEP))
        pids = await reached(sandbox)
        await sandbox.aclose()
        assert (await call).status == "unavailable"
        with pytest.raises(ToolUnavailable):
            await sandbox.run(SLEEP)
        return pids

    assert gone(asyncio.run(main()))


def test_the_slots_end_with_their_client() -> None:
    script = (
        "import asyncio\nfrom tircli.tools.python import *\n"
        "async def main():\n"
        "    sandbox = Sandbox(policy=Policy(weak=True), slots=1, setup=Setup(defaults=False))\n"
        "    await sandbox.start()\n"
        "    print(next(iter(sandbox._all))._process.pid, flush=True)\n"
        "    await sandbox.run(Job('import time\\ntime.sleep(60)'))\n"
        "asyncio.run(main())"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        pids = [int(client.stdout.readline())]
        while len(pids) < 3:
            pids += children(pids[-1])[:1]
        client.kill()
    assert gone(pids)


def test_a_queue_is_no_run_time() -> None:
    async def body(sandbox: Sandbox) -> list[Outcome]:
        sandbox.limits = Limits(seconds=2)
        nap = Job("import time\ntime.sleep(0.5)")
        return await asyncio.gather(*(sandbox.run(nap) for _ in range(5)))

    outcomes = with_sandbox(body)  # the last waits 2 s, its limit
    assert {outcome.status for outcome in outcomes} == {"ok"}
    assert max(outcome.queued for outcome in outcomes) >= 2
    assert max(outcome.seconds for outcome in outcomes) < 2


def test_several_slots_run_at_once() -> None:
    async def main() -> list[Outcome]:
        sandbox = Sandbox(policy=Policy(weak=True), slots=2, setup=LIGHT)
        nap = Job("import time\nprint(time.monotonic())\ntime.sleep(1)\nprint(time.monotonic())")
        try:
            await asyncio.gather(*(sandbox.run(Job("1")) for _ in range(8)))
            while len(sandbox._all) < 2:
                await asyncio.sleep(0.01)
            return await asyncio.gather(sandbox.run(nap), sandbox.run(nap))
        finally:
            await sandbox.aclose()

    (a, b), (c, d) = ((float(n) for n in o.stdout.split()) for o in asyncio.run(main()))
    assert max(a, c) < min(b, d)


def test_a_required_layer_that_is_missing_stops_the_start() -> None:
    async def main() -> None:
        sandbox = Sandbox(
            policy=Policy(("landlock",)), slots=1, setup=Setup(off=("landlock",), defaults=False)
        )
        try:
            await sandbox.run(Job("1"))
        finally:
            await sandbox.aclose()

    with pytest.raises(InputError, match="landlock is required and missing: switched off"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("off", "open_"),
    [(("mnt", "landlock"), "files stay open"), (("net", "seccomp"), "the network stays open")],
)
def test_what_stays_open_is_refused_unless_weak(off: tuple[str, ...], open_: str) -> None:
    async def main(policy: Policy) -> str:
        sandbox = Sandbox(policy=policy, slots=1, setup=Setup(off=off, defaults=False))
        try:
            return (await sandbox.run(Job("1"))).status
        finally:
            await sandbox.aclose()

    with pytest.raises(InputError, match=open_):
        asyncio.run(main(Policy()))
    assert asyncio.run(main(Policy(weak=True))) == "ok"


@pytest.mark.parametrize("executable", ["/nonexistent/python", "/bin/false"])
def test_an_interpreter_that_does_not_start(
    executable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        sandbox = Sandbox(slots=1, setup=LIGHT)
        try:
            await sandbox.run(Job("1"))
        finally:
            await sandbox.aclose()

    monkeypatch.setattr(sys, "executable", executable)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ToolUnavailable, match="didn't start"):
        asyncio.run(main())
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_import_that_is_not_installed_is_named() -> None:
    async def main() -> None:
        sandbox = Sandbox(slots=1, setup=Setup(imports=("no_such_package",), defaults=False))
        try:
            await sandbox.run(Job("1"))
        finally:
            await sandbox.aclose()

    with pytest.raises(ToolUnavailable, match="no_such_package"):
        asyncio.run(main())


def test_a_slot_out_of_memory_costs_its_own_call_alone() -> None:
    group = Path(f"/sys/fs/cgroup/memory/tir-test-{os.getpid()}")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("needs a memory cgroup (version 1) that may be written")

    async def body(sandbox: Sandbox) -> list[Outcome]:
        (group / "memory.limit_in_bytes").write_text("100M")
        for pid in family(sandbox):
            (group / "cgroup.procs").write_text(str(pid))
        big = Job("x = bytearray(300 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1")
        return [await sandbox.run(big), await sandbox.run(Job("40 + 2"))]

    try:
        first, second = with_sandbox(body)
    finally:
        group.rmdir()
    assert first.status in ("memory", "unavailable")  # the kernel chooses whom it kills
    assert second.value == "42"


def test_a_hundred_calls_leave_no_descriptor_and_no_process() -> None:
    async def body(sandbox: Sandbox) -> tuple[list[str], list[str]]:
        async def some() -> list[str]:
            await asyncio.gather(*(sandbox.run(Job(f"{n}")) for n in range(50)))
            return [*sorted(os.listdir("/proc/self/fd")), *map(str, family(sandbox))]

        return await some(), await some()

    before, after = with_sandbox(body)
    assert before == after
