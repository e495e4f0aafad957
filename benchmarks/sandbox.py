"""The python sandbox against its peers, in one run: interleaved, outputs compared.

    python benchmarks/sandbox.py --rounds 5

- `fresh`: `python -c` of the same interpreter, a process a call (isolates nothing but memory).
- `pool`: one warm worker process that executes programs in itself, as the papers' executors do.
- `floor`: the fork, exit and wait of a template with the same imports, nothing else.
- `ours`: the sandbox with every layer that this machine has, one slot.

CPU is this process's and its descendants' together, so that no contender hides work. `own` is the
snippet's CPU time by itself, in such a fork. Then calls/s with one and two slots, and what each
layer costs: a sandbox without it, interleaved with one that has all.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tircli.tools.python import Job, Limits, Policy, Sandbox, Setup, warm
from tircli.tools.python.slot import environment

SNIPPETS = {
    "stdlib": [
        "print(sum(i * i for i in range(1000)))",
        "from fractions import Fraction\nprint(sum(Fraction(1, n) for n in range(1, 30)))",
        "import math\nprint(math.comb(40, 20), math.gcd(462, 1071))",
        "from itertools import permutations as p\nprint(sum(q[0] < q[1] for q in p(range(6))))",
        "def f(n): return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(15))",
        "from collections import Counter\nprint(Counter('mississippi').most_common(2))",
    ],
    "numpy": [
        "import numpy as np\nprint(np.arange(12).reshape(3, 4).sum(axis=0))",
        "import numpy as np\nprint(np.linalg.det(np.array([[2.0, 1.0], [1.0, 3.0]])).round(6))",
        "import numpy as np\nprint(np.roots([1, -6, 11, -6]).round(6))",
    ],
    "sympy": [
        "from sympy import *\nx = symbols('x')\nprint(solve(x**2 - 7*x + 12, x))",
        "from sympy import *\nx = symbols('x')\nprint(integrate(x * exp(x), x))",
        "from sympy import *\nprint(factorint(123456789))",
        "from sympy import *\nx = symbols('x')\nprint(simplify((x**3 - 1) / (x - 1)))",
        "from sympy import *\nn, k = symbols('n k')\nprint(summation(k**2, (k, 1, n)).factor())",
        "from sympy import *\nprint(Matrix([[2, 1], [1, 3]]).eigenvals())",
    ],
}
LIMITS = Limits(seconds=60, cpu_seconds=30)


@dataclass
class Times:
    """Wall and CPU seconds of one contender's calls."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def row(self) -> str:
        """p50 and p99 of wall, mean CPU, in milliseconds."""
        ordered = sorted(self.wall)
        p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
        cpu = statistics.mean(self.cpu) if self.cpu else float("nan")
        return f"{1e3 * statistics.median(ordered):9.2f} {1e3 * p99:9.2f} {1e3 * cpu:9.2f}"


def cpu_of(pid: int) -> float:
    """CPU seconds of `pid` and of its children that have ended, in the kernel's ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def fresh(source: str) -> str:
    """The output of a new interpreter."""
    command = [sys.executable, "-s", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    return done.stdout


def pool_worker(pipe: Any) -> None:
    """Execute what comes, in this process; answer with its output."""
    warm.load(warm.DEFAULT, [])
    pipe.send("ready")
    while (source := pipe.recv()) is not None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(source, {"__name__": "__main__"})
        pipe.send(out.getvalue())


def floor_worker(pipe: Any) -> None:
    """Fork, exit, wait; with a source: execute it in the fork and answer with its CPU seconds."""
    warm.load(warm.DEFAULT, [])
    warm.settle(os.open("/proc", os.O_RDONLY))
    pipe.send("ready")
    while (source := pipe.recv()) is not None:
        pid = os.fork()
        if pid == 0:
            if source:
                start = time.process_time()
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(source, {"__name__": "__main__"})
                pipe.send(time.process_time() - start)
            os._exit(0)
        os.waitpid(pid, 0)
        if not source:
            pipe.send(None)


class Worker:
    """A process of one of the functions above."""

    def __init__(self, work: Callable[[Any], None]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs,), daemon=True)
        self.process.start()
        self.pipe.recv()

    def ask(self, message: object) -> Any:
        """The worker's answer."""
        self.pipe.send(message)
        return self.pipe.recv()

    def close(self) -> None:
        """End the worker."""
        self.pipe.send(None)
        self.process.join()


def template_of(sandbox: Sandbox) -> int:
    """The process that forks the calls of the only slot."""
    keeper = next(iter(sandbox._all))._process.pid
    return int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])


async def start(off: tuple[str, ...] = (), slots: int = 1, **options: Any) -> Sandbox:
    """A started sandbox without the layers in `off`."""
    sandbox = Sandbox(LIMITS, Policy(weak=True), slots, Setup(off=off, **options))
    await sandbox.start()
    return sandbox


async def compare(rounds: int) -> None:
    """Print the table of contenders, for each kind of snippet."""
    sandbox, pool, floor = await start(), Worker(pool_worker), Worker(floor_worker)
    names = ("fresh", "pool", "floor", "ours", "own")
    print(f"layers: {json.dumps(sandbox.layers)}")
    print(f"{'kind':8} {'contender':10} {'p50 ms':>9} {'p99 ms':>9} {'cpu ms':>9}")
    calls = 0
    differ = dict.fromkeys(("pool", "ours"), 0)
    for kind, sources in SNIPPETS.items():
        times = {name: Times() for name in names}
        pids = {"ours": template_of(sandbox), "floor": floor.process.pid or 0}
        for _ in range(rounds):
            for source in sources:
                outputs = {}
                for name in ("fresh", "pool", "floor", "ours"):
                    begin, cpu = time.perf_counter(), total_cpu(pids.get(name))
                    if name == "fresh":
                        outputs[name] = fresh(source)
                    elif name == "pool":
                        outputs[name] = pool.ask(source)
                    elif name == "floor":
                        floor.ask("")
                    else:
                        outputs[name] = (await sandbox.run(Job(source))).stdout
                    times[name].wall.append(time.perf_counter() - begin)
                    if name != "pool":
                        times[name].cpu.append(total_cpu(pids.get(name)) - cpu)
                times["own"].wall.append(floor.ask(source))
                calls += 1
                for name in differ:
                    differ[name] += outputs[name] != outputs["fresh"]
        for name in names:
            print(f"{kind:8} {name:10} {times[name].row()}  n={len(times[name].wall)}")
        mean = {name: statistics.mean(times[name].cpu) for name in ("fresh", "floor", "ours")}
        own = statistics.mean(times["own"].wall)
        wall = {name: statistics.median(times[name].wall) for name in names}
        print(
            f"{kind:8} ours is {mean['fresh'] / mean['ours']:.1f} x fresh by CPU, "
            f"{wall['fresh'] / wall['ours']:.1f} x by p50; "
            f"CPU {mean['ours'] / (mean['floor'] + own):.2f} x (floor + own)"
        )
    print(f"outputs that differ from those of fresh processes: {differ}, of {calls}")
    await sandbox.aclose()
    pool.close()
    floor.close()


def total_cpu(pid: int | None) -> float:
    """CPU seconds of this process with its ended children, and of a worker's."""
    own = sum(os.times()[:4])
    return own + (cpu_of(pid) if pid else 0.0)


async def throughput(rounds: int) -> None:
    """Print calls/s with one and two slots, in alternating blocks."""
    both = [await start(), await start(slots=2)]
    sources = [source for group in SNIPPETS.values() for source in group]
    await asyncio.gather(*(both[1].run(Job(source)) for source in sources * 4))
    rates: list[list[float]] = [[], []]
    for _ in range(rounds):
        for sandbox, found in zip(both, rates, strict=True):
            begin = time.perf_counter()
            await asyncio.gather(*(sandbox.run(Job(source)) for source in sources * 2))
            found.append(2 * len(sources) / (time.perf_counter() - begin))
    one, two = (statistics.median(found) for found in rates)
    print(f"calls/s: 1 slot {one:.1f}, 2 slots {two:.1f} ({two / one:.2f} x)")
    for sandbox in both:
        await sandbox.aclose()


async def layer_costs(rounds: int) -> None:
    """Print the CPU of a call without each layer, against one with all, interleaved."""
    spaces = ("mnt", "net", "pid", "ipc", "uts", "user")
    everything = (*spaces, "landlock", "seccomp", "uid", "caps")
    variants: dict[str, Callable[[], Awaitable[Sandbox]]] = {
        "all layers": start,
        "without namespaces": lambda: start(spaces),
        "without landlock": lambda: start(("landlock",)),
        "without seccomp": lambda: start(("seccomp",)),
        "without any": lambda: start(everything),
        "without huge pages": lambda: start(huge=False),
    }
    sandboxes = {name: await make() for name, make in variants.items()}
    pids = {name: template_of(sandbox) for name, sandbox in sandboxes.items()}
    before = {name: cpu_of(pid) for name, pid in pids.items()}
    wall: dict[str, list[float]] = {name: [] for name in sandboxes}
    n = 40 * rounds
    for _ in range(n):
        for name, sandbox in sandboxes.items():
            begin = time.perf_counter()
            await sandbox.run(Job("print(1)"))
            wall[name].append(time.perf_counter() - begin)
    for name, pid in pids.items():
        cpu = (cpu_of(pid) - before[name]) / n
        p50 = statistics.median(wall[name])
        print(f"{name:20} cpu {1e3 * cpu:6.2f} ms  p50 {1e3 * p50:6.2f} ms  n={n}")
    for sandbox in sandboxes.values():
        await sandbox.aclose()


async def run(rounds: int) -> None:
    """All tables."""
    await compare(rounds)
    await throughput(rounds)
    await layer_costs(rounds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    os.environ["PYTHONHASHSEED"] = "0"  # for the peers, as in the sandbox
    asyncio.run(run(parser.parse_args().rounds))
