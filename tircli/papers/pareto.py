"""Group-wise Pareto sampling of ET-Agent: dispersion, fronts, crowding distance, selection.

Where the paper is silent (SPEC 4):
- scores are rounded to 12 decimals, so that float residue never decides a comparison;
- the ends of a front have infinite distance, as in NSGA-II; a dimension in which the front does not
  vary adds nothing to anyone, so that a front of equal points keeps its input order;
- equal distances keep the input order.
Fronts are found by a sweep in O(n log n), not by comparing all pairs; the result is the same.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence

DECIMALS = 12


def dispersion(values: Sequence[float]) -> float:
    """Population standard deviation, `sqrt(1/K sum (v - mean v)^2)` (ET-Agent, section 4.2.1).

    `S_corr` of a group's correctness, `S_tool` of its calls; rounded to 12 decimals. Calls 1, 2,
    3, 2 give 0.707106781187; one value gives 0. Raises ValueError without values.
    """
    if not values:
        raise ValueError("dispersion of no values")
    mean = math.fsum(values) / len(values)
    return round(math.sqrt(math.fsum((v - mean) ** 2 for v in values) / len(values)), DECIMALS)


def front_numbers(s_corr: Sequence[float], s_tool: Sequence[float]) -> list[int]:
    """The front of each point, 1 being dominated by none (ET-Agent, appendix, algorithm 2, line 4).

    p dominates q if it is not less in both and greater in one; front i + 1 is what is dominated
    only by fronts up to i. In descending (s_corr, s_tool) a point is dominated by a front exactly
    if the front's greatest s_tool so far is not less; these maxima fall from front to front, so
    one binary search finds the first front that does not dominate. Equal points share a front.
    """
    order = sorted(range(len(s_corr)), key=s_tool.__getitem__, reverse=True)
    order.sort(key=s_corr.__getitem__, reverse=True)
    fronts = [0] * len(order)
    tops: list[float] = []  # minus the greatest s_tool of each front: ascending
    last, front = (math.nan, math.nan), 0
    for i in order:
        point = (s_corr[i], s_tool[i])
        if point != last:
            front = bisect_right(tops, -point[1])
            tops[front : front + 1] = [-point[1]]
            last = point
        fronts[i] = front + 1
    return fronts


def crowding_distances(s_corr: Sequence[float], s_tool: Sequence[float]) -> list[float]:
    """How far each point of one front stands from its neighbours (appendix, algorithm 3).

    For each of the two: sorted ascending (stable), the ends are infinite, the others add
    `(next - previous) / (greatest - least)`. Points (0, 3), (1, 2), (3, 0) give inf, 2, inf.
    """
    distances = [0.0] * len(s_corr)
    for values in (s_corr, s_tool):
        order = sorted(range(len(values)), key=values.__getitem__)
        if not order or values[order[0]] == values[order[-1]]:
            continue
        span = values[order[-1]] - values[order[0]]
        distances[order[0]] = distances[order[-1]] = math.inf
        for before, i, after in zip(order, order[1:], order[2:], strict=False):
            distances[i] += (values[after] - values[before]) / span
    return distances


def select(
    s_corr: Sequence[float],
    s_tool: Sequence[float],
    target: int,
    fronts: Sequence[int] | None = None,
) -> list[int]:
    """The points that are kept, ascending: front by front until `target` (appendix, algorithm 2).

    The front that does not fit is cut to its largest crowding distances, the first of equal ones.
    `fronts` are the front numbers, if they are known. Fewer points than `target`: all of them.
    """
    if fronts is None:
        fronts = front_numbers(s_corr, s_tool)
    sizes = [0] * (max(fronts, default=0) + 1)
    for front in fronts:
        sizes[front] += 1
    cut, room = 1, target
    while cut < len(sizes) and sizes[cut] <= room:
        room -= sizes[cut]
        cut += 1
    kept = [i for i, front in enumerate(fronts) if front < cut]
    edge = [i for i, front in enumerate(fronts) if front == cut]
    distances = crowding_distances([s_corr[i] for i in edge], [s_tool[i] for i in edge])
    widest = sorted(range(len(edge)), key=distances.__getitem__, reverse=True)
    return sorted(kept + [edge[j] for j in widest[:room]])
