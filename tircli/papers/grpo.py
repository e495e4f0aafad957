"""GRPO's group advantage, and the two spreads of rewards that are easily confused.

All in float64. A group whose rewards differ by rounding alone has no spread: dividing by such a
std makes advantages of about 1 from nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def advantages(
    rewards: Sequence[float | None],
    *,
    scale: bool = True,
    eps: float = 1e-6,
    floor: float = 1e-6,
) -> list[float | None]:
    """A = (R - mean) / (std + eps) of each member, std with divisor n - 1; without std if not
    `scale`.

    rewards: of one group; None or not finite = missing: its advantage is None and it enters no
    mean. floor: a std at or below `floor` times the largest |R| counts as 0, and all A are 0.
    One reward alone gives 0. Example: 1, 0, 0, 1 gives 0.866, -0.866, -0.866, 0.866.
    """
    known = [r for r in rewards if r is not None and math.isfinite(r)]
    mean = math.fsum(known) / len(known) if known else 0.0
    std = _std(known)
    flat = std <= floor * max(map(abs, known), default=0.0)
    divisor = std + eps if scale else 1.0
    return [
        None if r is None or not math.isfinite(r) else 0.0 if flat else (r - mean) / divisor
        for r in rewards
    ]


def spreads(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """`(within, across)`: the mean std inside groups, and the std of all rewards together.

    Both with divisor n - 1. Only the first makes a gradient: groups of equal rewards give
    within = 0 and no update, however large across is.
    """
    stds = [_std(group) for group in groups if group]
    together = [reward for group in groups for reward in group]
    return math.fsum(stds) / max(len(stds), 1), _std(together)


def _std(values: Sequence[float]) -> float:
    if len(values) < 2 or max(values) == min(values):
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (len(values) - 1))
