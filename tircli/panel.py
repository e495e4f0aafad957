"""The judges of a run, together: a rule, a model, or a rule with the model's second opinion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sized
from typing import TypeVar

from tircli.audit import Ask, Audit
from tircli.judge import SOLVED, Judge, Verdict, enter, load
from tircli.llm_judge import LLMJudge
from tircli.records import Json, Trajectory

Item = TypeVar("Item", bound=Sized)


class Panel:
    """Fills `correct` and `judge` of one trajectory after the other.

    With a second opinion the model is asked only where the rule says no, and the verdict that
    did not decide stands under `other`.
    """

    def __init__(
        self,
        name: str,
        llm: LLMJudge | None = None,
        *,
        second_opinion: bool = False,
        redundancy: bool = False,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.name = f"{name}+llm" if second_opinion else name
        self.llm, self._redundancy, self._warn = llm, redundancy, warn
        self._rule: Judge | None = None if name == "llm" else load(name)
        self._second = llm if second_opinion else None

    @property
    def asks(self) -> bool:
        """True if a model has a say in the records."""
        return self._rule is None or self._second is not None or self._redundancy

    def by_rule(self, trajectory: Trajectory) -> None:
        """Fill the record by the rule alone."""
        assert self._rule is not None
        enter(trajectory, self._rule(trajectory), self._warn)

    async def judge(self, trajectory: Trajectory) -> None:
        """Fill the record: correctness, and redundancy where that is asked."""
        if not self._redundancy:
            enter(trajectory, await self.verdict(trajectory), self._warn)
            return
        assert self.llm is not None
        verdict, found = await asyncio.gather(
            self.verdict(trajectory), self.llm.redundant(trajectory)
        )
        enter(trajectory, verdict, self._warn)
        assert trajectory.judge is not None
        trajectory.judge |= found

    async def verdict(self, trajectory: Trajectory) -> Verdict:
        """What the panel says, without a trace in the record."""
        if self._rule is None:
            assert self.llm is not None
            return await self.llm.correct(trajectory)
        first, details = self._rule(trajectory)
        if self._second is None or first is None or first > SOLVED:
            return first, details
        second, reasons = await self._second.correct(trajectory)
        if second is not None and second > SOLVED:
            other: Json = {"correct": first} | details
            return second, reasons | {"other": other}
        other = {"correct": second} | reasons
        return first, details | {"other": other}

    def auditor(self) -> Audit:
        """An audit of this panel beside the rule, the letter and the model where they differ."""
        others = {n: _waited(load(n)) for n in ("auto", "exact") if n != self.name}
        if self.llm is not None and self._rule is not None and self._second is None:
            others["llm"] = self.llm.correct
        return Audit(self.name, self.verdict, others)


def _waited(rule: Judge) -> Ask:
    async def ask(trajectory: Trajectory) -> Verdict:
        return rule(trajectory)

    return ask


async def each(
    items: Iterator[Item], work: Callable[[Item], Awaitable[None]], at_once: int
) -> AsyncIterator[tuple[int, Item]]:
    """`(number, item)` as the work on each is done; items of about `at_once` members under way.

    The next item is read in a thread, so that a slow reader does not hold up the replies.
    """
    running: dict[asyncio.Task[None], tuple[int, Item]] = {}
    members, number, more = 0, 0, True
    try:
        while more or running:
            while more and members < at_once:
                item = await asyncio.to_thread(next, items, None)
                if item is None:
                    more = False
                    break
                running[asyncio.ensure_future(work(item))] = (number, item)
                members, number = members + len(item), number + 1
            if not running:
                return
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
                index, item = running.pop(task)
                members -= len(item)
                yield index, item
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
