"""The judges of a run, together: a rule, a model, or a rule with the model's second opinion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tircli.answers import Rules
from tircli.audit import Ask, Audit
from tircli.judge import DEFAULT, SOLVED, Judge, Verdict, enter, load
from tircli.llm_judge import LLMJudge
from tircli.records import Json, Trajectory


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
        rules: Rules = DEFAULT,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.name = f"{name}+llm" if second_opinion else name
        self.llm, self._redundancy, self._warn = llm, redundancy, warn
        self._rules = rules
        self._rule: Judge | None = None if name == "llm" else load(name, rules)
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
        rules = {"auto": load("auto", self._rules), "exact": load("exact")}
        others = {name: _waited(rule) for name, rule in rules.items() if name != self.name}
        if self.llm is not None and self._rule is not None and self._second is None:
            others["llm"] = self.llm.correct
        return Audit(self.name, self.verdict, others)


def _waited(rule: Judge) -> Ask:
    async def ask(trajectory: Trajectory) -> Verdict:
        return rule(trajectory)

    return ask
