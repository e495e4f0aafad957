#!/usr/bin/env python
"""Time and memory of Pareto selection, half of n groups kept: ours, pymoo, the quadratic method.

    python benchmarks/pareto.py [--peer-python PYTHON_WITH_PYMOO] [--rounds 2]

Each run is a process of its own; rounds are interleaved and the best of each is shown. MB is the
peak beyond the input. Points: `distinct` (uniform, all different) and `groups` (16 samples with
1-15 right, calls' deviation to 3 decimals: many ties). The quadratic method is NSGA-II's sort with
numpy rows, then the same crowding distances.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time

SIZES = {"ours": (10**4, 10**5, 10**6), "pymoo": (10**4, 10**5, 10**6), "quadratic": (10**3, 10**4)}


def points(kind: str, n: int):
    import numpy as np

    rng = np.random.default_rng(0)
    if kind == "distinct":
        return rng.random(n), rng.random(n)
    share = rng.integers(1, 16, n) / 16
    return np.sqrt(share * (1 - share)).round(12), (3 * rng.random(n)).round(3)


def ours(x, y, keep):
    from tircli.papers.pareto import select

    return select(x, y, keep)


def pymoo(x, y, keep):
    import numpy as np
    from pymoo.operators.survival.rank_and_crowding.metrics import calc_crowding_distance
    from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    values = -np.column_stack([x, y])
    kept = []
    for front in NonDominatedSorting().do(values, n_stop_if_ranked=keep):
        if len(kept) + len(front) > keep:
            crowding = calc_crowding_distance(values[front])
            front = front[np.argsort(-crowding, kind="stable")][: keep - len(kept)]
        kept += list(front)
    return sorted(int(i) for i in kept)


def quadratic(x, y, keep):
    import numpy as np

    from tircli.papers.pareto import select

    x, y = np.array(x), np.array(y)
    beats = [
        np.flatnonzero((x[i] >= x) & (y[i] >= y) & ((x[i] > x) | (y[i] > y))) for i in range(len(x))
    ]
    beaten = np.zeros(len(x), int)
    for found in beats:
        beaten[found] += 1
    fronts, number, front = np.zeros(len(x), int), 1, np.flatnonzero(beaten == 0)
    while len(front):
        fronts[front] = number
        number += 1
        beaten[front] = -1
        for i in front:
            beaten[beats[i]] -= 1
        front = np.flatnonzero(beaten == 0)
    return select(x.tolist(), y.tolist(), keep, fronts.tolist())


def child(who: str, kind: str, n: int) -> None:
    from array import array

    columns = points(kind, n)
    x, y = (array("d", column.tobytes()) for column in columns)
    if who == "pymoo":
        import pymoo.operators.survival.rank_and_crowding.metrics
        import pymoo.util.nds.non_dominated_sorting  # noqa: F401
    elif who == "quadratic":
        import tircli.papers.pareto  # noqa: F401
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    kept = globals()[who](x, y, n // 2)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    digest = hash(tuple(kept))
    print(json.dumps({"seconds": seconds, "mb": (peak - before) / 1024, "kept": digest}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--peer-python", help="a python that has pymoo; without it pymoo is left out"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        who, kind, n = options.child
        return child(who, kind, int(n))
    runs = [
        (kind, n, who)
        for kind in ("groups", "distinct")
        for who, sizes in SIZES.items()
        for n in sizes
        if who != "pymoo" or options.peer_python
    ]
    best: dict[tuple[str, int, str], dict] = {}
    for _ in range(options.rounds):
        for kind, n, who in runs:
            python = options.peer_python if who == "pymoo" else sys.executable
            command = [python, __file__, "--child", who, kind, str(n)]
            done = subprocess.run(command, capture_output=True, check=True, env=dict(os.environ))
            got = json.loads(done.stdout)
            if (kind, n, who) not in best or got["seconds"] < best[kind, n, who]["seconds"]:
                best[kind, n, who] = got
    print(f"{'points':9} {'n':>8}  {'method':10} {'seconds':>9} {'MB':>7}  kept")
    for (kind, n, who), got in sorted(best.items()):
        mine = best.get((kind, n, "ours"))
        same = (
            "" if mine is None else "as ours" if mine["kept"] == got["kept"] else "other than ours"
        )
        print(f"{kind:9} {n:8}  {who:10} {got['seconds']:9.3f} {got['mb']:7.1f}  {same}")
    if not options.peer_python:
        print("pymoo: left out; give --peer-python")


if __name__ == "__main__":
    main()
