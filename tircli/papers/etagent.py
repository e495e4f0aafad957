"""ET-Agent, equations 1 to 3 of its curriculum reward, and the sigma of each round.

- The paper standardises lengths and leaves calls as counts; so does this module.
- The authors' code doubles both scores: `gain = 2`. The paper has no gain: 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def behaviour_score(v: float, mean: float, sigma: float) -> float:
    """f = 1 / (1 + exp(sigma (v - mean))), in [0, 1] (eq. 1 for calls, eq. 2 for lengths).

    v: calls, or standardised length, of this trajectory. mean: of its group. sigma >= 0: how
    strictly. v = mean or sigma = 0 gives 0.5. Example: 1, 2, 0.1 gives 0.524979.
    """
    x = sigma * (v - mean)
    if not math.isfinite(x):
        raise ValueError(f"sigma (v - mean) is {x} for v {v}, mean {mean}, sigma {sigma}")
    # exp of a large number overflows; that of its negative does not.
    return math.exp(-x) / (1 + math.exp(-x)) if x > 0 else 1 / (1 + math.exp(x))


def z_scores(values: Sequence[float]) -> list[float]:
    """(v - mean) / std of each value, std over the whole group (divisor: its size).

    Equal values give 0, all of them. Example: 100, 200, 300, 200 gives -1.4142, 0, 1.4142, 0.
    """
    if not values or max(values) == min(values):
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values))
    return [(v - mean) / std for v in values]


def total_reward(
    r_corr: float,
    f_tool: float,
    f_len: float,
    r_format: float = 0.0,
    gain: float = 1.0,
) -> float:
    """R = R_corr (gain f_tool) (gain f_len) + R_format (eq. 3, with gain = 1).

    r_corr: 0..1. f_tool, f_len: eq. 1 and 2. r_format: -1 for a malformed trajectory, else 0.
    Example: 1, 0.524979, 0.535296 gives 0.281020.
    """
    return r_corr * (gain * f_tool) * (gain * f_len) + r_format


def sigma_of_round(sigma_1: float, r: int, R: int) -> float:
    """sigma_r = sigma_1 (R - r + 1) / R, for round r of R (SPEC 3.6; the paper: it decreases).

    Example: 0.1 in 3 rounds gives 0.1, 0.0667, 0.0333.
    """
    if not 1 <= r <= R:
        raise ValueError(f"round {r} of {R}; rounds count from 1")
    return sigma_1 * (R - r + 1) / R
