"""Trajectories a second of our loop, of a lock-step loop, and of an engine that is never idle.

The engine is simulated: a server with continuous batching whose decoding step takes
`BASE + EACH * rows` seconds. The clock jumps over the waiting and keeps the real time that the
loops themselves compute, so a long workload is measured in seconds. The lock-step loop is the
usual one of published code, written anew: all trajectories of a batch generate, all wait for the
slowest; then all tools run side by side, and all wait for the slowest of these.

    python benchmarks/rollout_overlap.py
"""

from __future__ import annotations

import argparse
import asyncio
import random
import selectors
import time

from tircli import protocols
from tircli.engines import Completion, Sampling
from tircli.records import Trajectory
from tircli.rollout import AgentLoop, Settings, run
from tircli.tools import ToolResult

BASE, EACH = 0.008, 0.00003  # Seconds a step: about a 7B model on one large GPU.


class JumpingLoop(asyncio.SelectorEventLoop):
    """Real time, except that waiting takes none."""

    def __init__(self) -> None:
        self.jumped = 0.0
        loop, selector = self, selectors.DefaultSelector()

        class Selector:
            def select(self, timeout=None):
                if timeout:
                    loop.jumped += timeout
                return selector.select(0)

            def __getattr__(self, name):
                return getattr(selector, name)

        super().__init__(Selector())

    def time(self) -> float:
        return time.monotonic() + self.jumped


class Engine:
    """`slots` rows decode together; the others wait. A turn is what the workload says it is."""

    name = model = "simulated"
    context = None

    def __init__(self, slots: int, workload: dict[str, list[tuple[str, float]]]) -> None:
        self.slots, self.workload = slots, workload
        self.rows: dict[asyncio.Future, float] = {}
        self.queue: list[tuple[asyncio.Future, int]] = []
        self.then = 0.0
        self.timer: asyncio.TimerHandle | None = None

    def render(self, prompt):
        return "prompt", [1] * 200

    def encode(self, text):
        return list(text.encode())

    def decode(self, ids):
        return bytes(ids).decode()

    async def generate(self, ids, sampling: Sampling) -> Completion:
        text = self.workload[sampling.key][sampling.turn][0]
        future = asyncio.get_running_loop().create_future()
        self.queue.append((future, len(text)))
        self._change()
        await future
        tokens = list(text.encode())
        stop = "</python>" if text.endswith("</python>") else "</answer>"
        return Completion(tokens, text, "stop", stop, [-0.1] * len(tokens), [[-0.1]] * len(tokens))

    def _change(self) -> None:
        """Bring all rows up to now, fill the free slots, plan for the next row that ends."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self.rows:
            steps = (now - self.then) / (BASE + EACH * len(self.rows))
            self.rows = {future: left - steps for future, left in self.rows.items()}
            for future in [f for f, left in self.rows.items() if left <= 1e-6]:
                del self.rows[future]
                future.set_result(None)
        self.then = now
        while self.queue and len(self.rows) < self.slots:
            future, tokens = self.queue.pop(0)
            self.rows[future] = tokens
        if self.timer is not None:
            self.timer.cancel()
        if self.rows:
            wait = min(self.rows.values()) * (BASE + EACH * len(self.rows))
            self.timer = loop.call_at(now + wait, self._change)

    async def aclose(self):
        pass


class Tool:
    """Takes as long as the workload says."""

    def __init__(self, workload) -> None:
        self.workload, self.turn = workload, {}

    async def run(self, source, session=None):
        number = self.turn[session] = self.turn.get(session, -1) + 1
        await asyncio.sleep(self.workload[session][number][1])
        return ToolResult("1")

    async def aclose(self):
        pass


def make_workload(count: int, seed: int) -> dict[str, list[tuple[str, float]]]:
    """For each trajectory its turns: text (a token a byte) and the seconds of its tool."""
    chance = random.Random(seed)
    workload = {}
    for i in range(count):
        turns = []
        calls = chance.randint(0, 6)
        for turn in range(calls + 1):
            tail = "<python>1</python>" if turn < calls else "<answer>\\boxed{1}</answer>"
            length = round(20 * 100 ** chance.random())  # 20 to 2,000, log-uniform
            fill = max(length - len(tail) - len("<think></think>"), 0)
            text = f"<think>{'x' * fill}</think>{tail}"
            turns.append((text, chance.uniform(0.05, 2.0)))
        workload[f"q{i}"] = turns
    return workload


async def ours(workload, slots: int, at_once: int) -> float:
    engine = Engine(slots, workload)
    tools = {"python": Tool(workload)}
    loop = AgentLoop(engine, protocols.load("et"), tools, Settings(max_tokens=100_000), {})
    items = (Trajectory(name, name, "?") for name in workload)
    start, done = asyncio.get_running_loop().time(), 0
    async for trajectory in run(items, loop, at_once):
        assert trajectory.stop == "answer", trajectory.stop
        done += 1
    assert done == len(workload)
    return asyncio.get_running_loop().time() - start


async def lock_step(workload, slots: int, at_once: int) -> float:
    engine, names = Engine(slots, workload), list(workload)
    start = asyncio.get_running_loop().time()
    for first in range(0, len(names), at_once):
        active, turn = names[first : first + at_once], 0
        while active:
            samplings = [Sampling(4096, key=name, turn=turn) for name in active]
            await asyncio.gather(*(engine.generate([], sampling) for sampling in samplings))
            active = [name for name in active if turn + 1 < len(workload[name])]
            await asyncio.gather(*(asyncio.sleep(workload[name][turn][1]) for name in active))
            turn += 1
    return asyncio.get_running_loop().time() - start


def measured(work) -> float:
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--slots", type=int, default=256, help="rows that decode together")
    parser.add_argument("--at-once", type=int, default=320, help="trajectories under way")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{options.count} trajectories, 0-6 calls, 20-2,000 tokens a turn, tools 0.05-2 s; "
        f"simulated engine, {options.slots} rows, {options.at_once} trajectories at once"
    )
    for seed in range(options.rounds):
        workload = make_workload(options.count, seed)
        tokens = sum(len(text) for turns in workload.values() for text, _ in turns)
        bound = tokens / options.slots * (BASE + EACH * options.slots)
        mine = measured(ours(workload, options.slots, options.at_once))
        theirs = measured(lock_step(workload, options.slots, options.at_once))
        rates = [options.count / seconds for seconds in (mine, theirs, bound)]
        print(
            f"ours {rates[0]:.2f}/s  lock step {rates[1]:.2f}/s  never idle {rates[2]:.2f}/s  "
            f"ours/lock step {rates[0] / rates[1]:.2f}  ours/never idle {rates[0] / rates[2]:.3f}"
        )


if __name__ == "__main__":
    main()
