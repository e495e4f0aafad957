"""Statistics of ratios over questions: intervals, paired differences, exact tests (SPEC 8).

A metric is a ratio of two sums, `sum v / sum w`. The samples of one question are no independent
draws, so the question is the unit everywhere: (v, w) are sums over its samples, and resampling,
swapping and standard errors work on questions.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from tircli.records import stable_seed

RESAMPLES = 1000
PERMUTATIONS = 10_000
EXACT_QUESTIONS = 13
"""Up to so many questions all 2^n swaps are counted, instead of PERMUTATIONS random ones."""
Z = 1.959964
POWER_Z = 0.841621
"""The standard normal's 97.5 % and 80 % points."""


def ratio(v: Any, w: Any) -> float | None:
    """`sum v / sum w`; None if the weights are all zero."""
    weight = float(np.sum(w))
    return float(np.sum(v)) / weight if weight else None


def standard_error(v: Any, w: Any) -> float | None:
    """`sqrt(Q/(Q-1) sum_q (v_q - R w_q)^2) / sum w`; None with fewer than two questions.

    Four questions with 4, 4, 0, 0 of 4 samples right: R = 0.5, error sqrt(4/3 * 16) / 16 = 0.289.
    """
    mean, questions = ratio(v, w), len(v)
    if mean is None or questions < 2:
        return None
    spread = float(np.sum((v - mean * w) ** 2))
    return math.sqrt(questions / (questions - 1) * spread) / float(np.sum(w))


@functools.lru_cache(maxsize=2)
def draws(questions: int, seed: int) -> Any:
    """How often each question stands in each bootstrap sample, `(RESAMPLES, questions)`."""
    generator = np.random.default_rng(stable_seed("metrics", seed))
    counts = np.empty((RESAMPLES, questions))
    for row in counts:
        row[:] = np.bincount(generator.integers(0, questions, questions), minlength=questions)
    return counts


def bootstrap(values: Any) -> tuple[float, float]:
    """2.5 % and 97.5 % points of `values`, those that are not finite left out."""
    low, high = np.percentile(values[np.isfinite(values)], [2.5, 97.5])
    return float(low), float(high)


def resampled_ratio(v: Any, w: Any, counts: Any) -> Any:
    """The ratio of each bootstrap sample; nan where its weights are zero."""
    above, below = counts @ v, counts @ w
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)


def paired(a: Any, b: Any, counts: Any | None) -> dict[str, float | None]:
    """How the ratio of `a = (v, w)` differs from that of `b`, over the same questions.

    `difference` is a - b; `stderr` is from the questions' joint residuals; `low`, `high`: 95 %
    interval by the bootstrap `counts`, normal without them; `detectable`: the least true
    difference that such data show in 80 % of cases at the 5 % level. All None if a side has no
    weight; all but the difference with one question.
    """
    out: dict[str, float | None] = dict.fromkeys(
        ("mean", "base", "difference", "low", "high", "stderr", "detectable")
    )
    out["mean"], out["base"] = mean, base = ratio(*a), ratio(*b)
    if mean is None or base is None:
        return out
    difference = out["difference"] = mean - base
    questions = int(np.sum((a[1] > 0) | (b[1] > 0)))
    if questions < 2:
        return out
    residual = (a[0] - mean * a[1]) / a[1].sum() - (b[0] - base * b[1]) / b[1].sum()
    error = math.sqrt(questions / (questions - 1) * float(np.sum(residual**2)))
    out["stderr"], out["detectable"] = error, (Z + POWER_Z) * error
    if counts is None:
        out["low"], out["high"] = difference - Z * error, difference + Z * error
    else:
        both = resampled_ratio(a[0], a[1], counts) - resampled_ratio(b[0], b[1], counts)
        out["low"], out["high"] = bootstrap(both)
    return out


def normal_p(difference: float, error: float) -> float:
    """Two-sided p-value of `difference` under the normal law with standard deviation `error`."""
    if not error:
        return 1.0 if not difference else 0.0
    return math.erfc(abs(difference) / error / math.sqrt(2))


def swap_p(a: Any, b: Any, seed: int) -> list[float]:
    """Two-sided p-values of differences of ratios under swapping the sides of questions.

    `a` and `b` are `(v, w)` with shapes (questions, metrics). Exact up to EXACT_QUESTIONS, else
    (1 + extremes) / (1 + PERMUTATIONS). A swap that leaves a side without weight counts as
    extreme: it cannot speak against chance.
    """
    questions, metrics = a[0].shape
    exact = questions <= EXACT_QUESTIONS
    total = 1 << questions if exact else PERMUTATIONS
    generator = np.random.default_rng(stable_seed("swap", seed))
    sums = [side[i].sum(0) for side in (a, b) for i in (0, 1)]
    steps = [b[i] - a[i] for i in (0, 1)]
    observed = np.abs(_differences(sums, [np.zeros((1, metrics))] * 2)[0])
    extremes, size = np.zeros(metrics, int), max(1, 4_000_000 // questions)
    for start in range(0, total, size):
        rows = min(size, total - start)
        if exact:
            codes = np.arange(start, start + rows)[:, None]
            swap = (codes >> np.arange(questions) & 1).astype(float)
        else:
            swap = generator.integers(0, 2, (rows, questions), dtype=np.int8).astype(float)
        difference = np.abs(_differences(sums, [swap @ step for step in steps]))
        extremes += np.sum(~(difference < observed * (1 - 1e-9) - 1e-15), axis=0)
    return [float(n / total if exact else (1 + n) / (1 + total)) for n in extremes]


def _differences(sums: list[Any], moved: list[Any]) -> Any:
    """Ratio of a minus ratio of b after `moved` went from b to a: shape (swaps, metrics)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mine: Any = (sums[0] + moved[0]) / (sums[1] + moved[1])
        return mine - (sums[2] - moved[0]) / (sums[3] - moved[1])


def mcnemar_p(better: int, worse: int) -> float:
    """Exact two-sided McNemar test: of `better + worse` discordant pairs, each side is a fair coin.

    `min(1, 2 P(X <= min(better, worse)))`. 1 and 9 of ten give 2 (1 + 10) / 1024 = 0.0215.
    """
    n, least = better + worse, min(better, worse)
    log_half = -n * math.log(2)
    tail = 0.0
    for i in range(least, -1, -1):
        term = math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + log_half
        tail += math.exp(term)
        if math.exp(term) < 1e-18 * tail:
            break
    return min(1.0, 2 * tail)


def kappa(table: Any) -> float | None:
    """Cohen's kappa of a square table of counts; None if chance agreement is complete or empty."""
    counts = np.asarray(table, float)
    total = float(counts.sum())
    if not total:
        return None
    chance = float(counts.sum(0) @ counts.sum(1)) / total**2
    return None if chance == 1 else (float(np.trace(counts)) / total - chance) / (1 - chance)
