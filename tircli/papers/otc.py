"""OTC-PO (arXiv 2504.14870), equations 5 to 7, and the table of least calls that eq. 6 needs.

- Equation 6 is computed as sin(pi min(m, n) / (m + n)): equal to the printed form, exactly
  symmetric in m and n, and never below 0 by rounding.
- The printed form gives a correct trajectory with m < n less than 1. That n is out of date; the
  caller decides (SPEC 3.4), this module keeps to the print.
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def tool_reward_ppo(m: int, c: float) -> float:
    """r_tool of a trajectory, seen alone: cos(m pi / (2m + c)), in (0, 1] (eq. 5).

    m: calls of this trajectory. c > 0: smoothness; the smaller, the dearer a call.
    m = 0 gives 1. Example: m = 1, c = 4 gives cos(pi / 6) = 0.8660.
    """
    _check(m=m)
    if not (c > 0 and math.isfinite(c)):
        raise ValueError(f"c is {c}; it must be above 0")
    return math.cos(m * math.pi / (2 * m + c))


def mapped_calls(m: int, n: int) -> float:
    """f(m, n), which maps m into [0, 2n): 0 if m = n = 0; m if n = 0; else 2nm / (m + n) (eq. 6).

    m: calls of this trajectory. n: the least calls known to be enough for the question.
    Example: m = 2, n = 1 gives 4/3.
    """
    _check(m=m, n=n)
    return float(m) if n == 0 else 2 * n * m / (m + n)


def tool_reward_grpo(m: int, n: int, c: float) -> float:
    """r_tool of a trajectory against the best one, in [0, 1] (eq. 6).

    1 if f = n = 0; cos(m pi / (2m + c)) if n = 0; sin(f pi / (2n)) else.
    m: calls of this trajectory. n: the least calls known to be enough. c > 0: as in eq. 5.
    m = n gives 1; m = 0 with n > 0 gives 0. Example: m = 2, n = 1 gives sin(2 pi / 3) = 0.8660.
    """
    _check(m=m, n=n)
    if n == 0:
        return tool_reward_ppo(m, c)
    return math.sin(math.pi * min(m, n) / (m + n))


def total_reward(r_phi: float, r_tool: float, alpha: float = 1.0) -> float:
    """alpha r_tool r_phi (eq. 7).

    r_phi: the reward without regard to tools. r_tool: eq. 5 or 6. alpha: scale.
    r_phi = 0 gives 0, whatever the calls. Example: 1, 0.8660, 1 gives 0.8660.
    """
    return alpha * r_tool * r_phi


class LeastCalls:
    """The least calls of any correct trajectory, for each question: the n of equation 6."""

    def __init__(self) -> None:
        self._least: dict[str, int] = {}

    def get(self, question: str) -> int | None:
        """n of `question`; None if no correct trajectory was seen."""
        return self._least.get(question)

    def observe(self, question: str, calls: int) -> None:
        """Lower n of `question` to `calls`, the calls of a correct trajectory."""
        _check(calls=calls)
        self._least[question] = min(calls, self._least.get(question, calls))

    def merge(self, other: LeastCalls) -> None:
        """Take the lesser n of both: the order of merges is of no matter, nor are repeats."""
        for question, calls in other._least.items():
            self.observe(question, calls)

    def state_dict(self) -> dict[str, int]:
        """All n, for a checkpoint."""
        return dict(self._least)

    def load(self, state: Mapping[str, int]) -> None:
        """Hold exactly what `state_dict` gave. Raises ValueError if `state` is something else."""
        for question, calls in state.items():
            if not isinstance(question, str) or type(calls) is not int:
                raise ValueError(f"{question!r}: {calls!r}; expected a question and whole calls")
            _check(calls=calls)
        self._least = dict(state)


def _check(**counts: float) -> None:
    for name, count in counts.items():
        if not (math.isfinite(count) and count >= 0):
            raise ValueError(f"{name} is {count}; it must be a number of calls, 0 or more")
