"""Which trajectories are under way: `k` of each question, so many at once."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Protocol

from tircli.budget import Budget, Counts, RunOver
from tircli.records import Trajectory


class Finisher(Protocol):
    """What finishes one trajectory: the agent loop."""

    budget: Budget
    counts: Counts

    async def finish(self, trajectory: Trajectory) -> Trajectory:
        """`trajectory`, ended."""


def expand(questions: Iterable[Trajectory], k: int) -> Iterator[Trajectory]:
    """Each question `k` times, as trajectories that have not begun; begun ones as they are."""
    for question in questions:
        if question.segments or question.stop is not None:
            yield question
            continue
        for sample in range(k):
            trajectory = copy.copy(question)
            trajectory.id, trajectory.group = f"{question.group}#{sample}", question.group
            trajectory.sample, trajectory.k, trajectory.segments = sample, k, []
            trajectory.meta, trajectory.extra = dict(question.meta), dict(question.extra)
            yield trajectory


async def run(
    trajectories: Iterable[Trajectory], loop: Finisher, concurrency: int
) -> AsyncGenerator[Trajectory, None]:
    """The trajectories, finished, in the order in which they end; `concurrency` at once.

    Raises RunOver when a budget of the run is used up.
    """
    source = iter(trajectories)
    ended: asyncio.Queue[Trajectory | Exception | None] = asyncio.Queue()

    async def work() -> None:
        try:
            for item in source:
                ended.put_nowait(await loop.finish(item))
        except Exception as error:
            ended.put_nowait(error)
        else:
            ended.put_nowait(None)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    seconds, start = loop.budget.seconds, time.monotonic()
    left = len(workers)
    try:
        while left:
            try:
                spare = None if seconds is None else start + seconds - time.monotonic()
                item = await asyncio.wait_for(ended.get(), spare)
            except asyncio.TimeoutError:
                raise RunOver(f"the run's {seconds:g} seconds are used up") from None
            if item is None:
                left -= 1
            elif isinstance(item, Exception):
                raise item
            else:
                yield item
                loop.counts.check(Budget(errors=loop.budget.errors))
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
