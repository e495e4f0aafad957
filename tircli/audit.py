"""Is a judge to be trusted? Where it disagrees with others, and which wrong answers it accepts."""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction

from tircli.judge import SOLVED, Verdict, judgeable, no_gold
from tircli.records import Group, Json, Trajectory

Ask = Callable[[Trajectory], Awaitable[Verdict]]
EXAMPLES = 10
"""How many of each kind the report shows."""


def probes(question: Trajectory) -> dict[str, str]:
    """Predictions to try on a judge, by name: `gold` is right, all others are wrong.

    `empty`; `echo`: the question itself; `numbers`: a list of numbers with the gold among them;
    `x100`: a hundred times the gold. The last two only where the gold is a number.
    """
    gold = next(gold for gold in question.golds if gold.strip())
    made = {"gold": gold, "empty": "", "echo": question.question}
    value = _number(gold)
    if value is None:
        return made
    digits = [str(i) for i in range(10)]
    numbers = dict.fromkeys([*digits, *re.findall(r"\d+", question.question), gold])
    made["numbers"] = ", ".join(numbers)
    if value:
        made["x100"] = str(100 * value)
    return made


def _number(text: str) -> Fraction | None:
    """The value of a plainly written number, fraction or percentage."""
    found = re.fullmatch(
        r"\$?(-?\d+(?:\.\d+)?(?:/[1-9]\d*)?)(%?)\$?", text.strip().replace(",", "")
    )
    if found is None or ("." in found[1] and "/" in found[1]):
        return None
    return Fraction(found[1]) / (100 if found[2] else 1)


class Audit:
    """Collects what `judge` says beside `others`, and what it says to probes."""

    def __init__(self, name: str, judge: Ask, others: Mapping[str, Ask]) -> None:
        self.name, self._judge, self._others = name, judge, others
        self._n = 0
        self._pairs: dict[tuple[str, str], Json] = {}
        self._probes: dict[str, Json] = {}

    async def add(self, group: Group, stored: list[float | None]) -> None:
        """Count a group that `judge` has judged; `stored`: the verdicts it came with."""
        for trajectory, before in zip(group, stored, strict=True):
            if judgeable(trajectory):
                self._n += 1
                said = {self.name: (trajectory.correct, trajectory.judge or {})}
                said |= {name: await ask(trajectory) for name, ask in self._others.items()}
                said["stored"] = (before, {"why": "as it came"})
                self._compare(trajectory, said)
        if no_gold(group[0]) is None:
            await self._probe(group[0])

    def _compare(self, trajectory: Trajectory, said: dict[str, Verdict]) -> None:
        for pair in itertools.combinations(said, 2):
            (first, why_first), (second, why_second) = said[pair[0]], said[pair[1]]
            if first is None or second is None:
                continue
            counts = self._pairs.setdefault(
                pair, {"both": 0, "neither": 0, "first": 0, "second": 0, "examples": []}
            )
            right = (first > SOLVED, second > SOLVED)
            verdicts = {(True, True): "both", (False, False): "neither", (True, False): "first"}
            counts[verdicts.get(right, "second")] += 1
            if right[0] != right[1] and len(counts["examples"]) < EXAMPLES:
                example = _example(trajectory)
                example["why"] = [why_first.get("why"), why_second.get("why")]
                counts["examples"].append(example)

    async def _probe(self, question: Trajectory) -> None:
        probe = copy.copy(question)
        for kind, prediction in probes(question).items():
            probe.prediction = prediction
            correct, details = await self._judge(probe)
            counts = self._probes.setdefault(
                kind, {"asked": 0, "accepted": 0, "ungraded": 0, "examples": []}
            )
            counts["asked"] += 1
            counts["ungraded"] += correct is None
            accepted = correct is not None and correct > SOLVED
            counts["accepted"] += accepted
            fault = accepted != (kind == "gold") and correct is not None
            if fault and len(counts["examples"]) < EXAMPLES:
                counts["examples"].append(_example(probe) | {"why": details.get("why")})

    def report(self) -> Json:
        """Disagreements of each two judges, and what became of the probes, with examples.

        Of a pair, `first` and `second` count where that one alone says right.
        """
        pairs = [{"judges": list(pair)} | counts for pair, counts in self._pairs.items()]
        return {
            "judge": self.name,
            "trajectories": self._n,
            "pairs": pairs,
            "probes": self._probes,
        }


def _example(trajectory: Trajectory) -> Json:
    return {
        "id": trajectory.id,
        "gold": trajectory.answer,
        "prediction": trajectory.prediction,
    }
