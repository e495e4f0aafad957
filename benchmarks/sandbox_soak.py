"""Many mixed calls of the python sandbox, and what they leave behind: figures, one JSON object.

    python benchmarks/sandbox_soak.py --calls 20000

Of the calls 10 % run into a limit, 5 % crash and 2 % lose their slot, which is killed from outside.
Exit code 1 where a status is wrong or something is left.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tircli.tools.python import Job, Limits, Policy, Sandbox, Setup

KINDS = {
    # kind: (share, program, status)
    "print": (0.40, "print(sum(range(1000)))", "ok"),
    "value": (0.23, "[n * n for n in range(100)]", "ok"),
    "error": (0.10, "1 / 0", "error"),
    "output": (0.05, "print('x' * 100_000)", "ok"),
    "memory": (0.05, "x = bytearray(4 << 30)", "memory"),
    "cpu": (0.05, "while True: pass", "timeout"),
    "wall": (0.05, "import time\ntime.sleep(60)", "timeout"),
    "segfault": (0.03, "import ctypes\nctypes.string_at(0)", "killed"),
    "abort": (0.02, "import os\nos.abort()", "killed"),
    "slot": (0.02, "sum(range(100000))", "ok"),
}
LIMITS = Limits(seconds=0.25, cpu_seconds=0.1)
CALM = Limits(seconds=30, cpu_seconds=10)
"""For the calls that must not meet a limit, however busy the machine is."""


def family(pid: int) -> list[int]:
    """`pid` and all below it."""
    found = [pid]
    for parent in found:
        try:
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        except OSError:
            continue
        found += [int(child) for child in text.split()]
    return found


def usage(sandbox: Sandbox) -> dict[str, int]:
    """Descriptors, memory of this process and of the slots, files left in the temporary folder."""
    pids = [pid for slot in sandbox._all for pid in family(slot._process.pid)]
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "client_kb": rss_kb(os.getpid()),
        "largest_slot_process_kb": max(map(rss_kb, pids), default=0),
        "slot_processes": len(pids),
        "own_children": len(family(os.getpid())) - 1,
        "temporary_files": len([n for n in os.listdir(tempfile.gettempdir()) if "tir-warm-" in n]),
    }


def rss_kb(pid: int) -> int:
    """Resident memory of `pid`, 0 where it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * resource.getpagesize() // 1024


async def soak(calls: int, slots: int, setup: Setup) -> dict[str, object]:
    """Run `calls` and say what came of them and what is left."""
    chance = random.Random(0)
    names = chance.choices(list(KINDS), [share for share, _, _ in KINDS.values()], k=calls)
    sandbox = Sandbox(policy=Policy(weak=True), slots=slots, setup=setup)
    seen: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    kills = 0
    samples = []

    async def one(name: str) -> None:
        nonlocal kills
        _, source, status = KINDS[name]
        if name == "slot" and sandbox._all:
            victim = chance.choice(list(sandbox._all))
            tree = family(victim._process.pid)
            if len(tree) > 1:
                os.kill(tree[1], signal.SIGKILL)
                kills += 1
        limits = LIMITS if status == "timeout" else CALM
        outcome = await sandbox.run(Job(source), limits)
        seen[f"{name}: {outcome.status}"] += 1
        if outcome.status not in (status, "unavailable"):
            wrong[f"{name}: {outcome.status}"] += 1

    start = time.monotonic()
    source = iter(names)

    async def worker() -> None:
        for name in source:
            await one(name)
            if sum(seen.values()) % max(calls // 10, 1) == 0:
                samples.append(usage(sandbox))
                sys.stderr.write(f"{sum(seen.values())} {samples[-1]}\n")

    await asyncio.gather(*(worker() for _ in range(2 * slots)))
    seconds = time.monotonic() - start
    lost = sum(n for name, n in seen.items() if name.endswith("unavailable"))
    await sandbox.aclose()
    left = usage(sandbox)
    return {
        "calls": calls,
        "seconds": round(seconds, 1),
        "slot_kills": kills,
        "unavailable": lost,
        "wrong_status": dict(wrong),
        "seen": dict(sorted(seen.items())),
        "after_a_tenth": samples[0],
        "at_the_end": samples[-1],
        "after_closing": left,
    }


def main() -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=20000)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--light", action="store_true", help="without numpy and sympy")
    args = parser.parse_args()
    figures = asyncio.run(soak(args.calls, args.slots, Setup(defaults=not args.light)))
    print(json.dumps(figures, indent=1))
    bad = figures["wrong_status"] or figures["after_closing"]["own_children"]  # type: ignore[index]
    return int(bool(bad) or figures["unavailable"] > figures["slot_kills"])  # type: ignore[operator]


if __name__ == "__main__":
    sys.exit(main())
