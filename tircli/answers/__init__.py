"""Judging of answers: mathematical equality and question answering scores."""

from __future__ import annotations

from dataclasses import asdict, dataclass

PERCENT = ("value", "sign")
UNITS = ("optional", "required")


@dataclass(frozen=True)
class Verdict:
    """Whether two answers are equal, and the reason in a few words."""

    equal: bool
    why: str


@dataclass(frozen=True)
class Rules:
    """How strictly mathematical answers are compared."""

    percent: str = "value"
    """`value`: 50% = 0.5; `sign`: the sign stands on both sides or on none."""
    units: str = "optional"
    """`optional`: a unit may be missing on one side; `required`: on both or on none."""

    def __post_init__(self) -> None:
        if self.percent not in PERCENT or self.units not in UNITS:
            raise ValueError("percent is value or sign; units is optional or required")

    def changed(self) -> dict[str, str]:
        """What is not as it is without options."""
        return {name: text for name, text in asdict(self).items() if text != asdict(Rules())[name]}
