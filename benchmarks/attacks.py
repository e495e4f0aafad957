#!/usr/bin/env python
"""How many hostile programs the sandbox holds, by configuration.

    python benchmarks/attacks.py [CONFIG...] [--programs FOLDER] [--without LAYER,...]

Runs every program of tests/attacks (or FOLDER) in each configuration that can be made here, looks
for harm after each (canary files, secrets, listeners, processes left, a health call), and prints a
row a configuration: programs, held, known to stay open, got through, and the names of the last two.
`--without` switches layers of the sandbox off, to see what each is for; `--controls` first shows
which programs do harm where there is no sandbox.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import attacks_harness as harness
from attacks_child import CONFIGS
from attacks_controls import works_without
from attacks_trap import Trap

THREADS = 2
Row = tuple[str, list[str], str | None]


def some(config: str, programs: list[harness.Program], options: dict[str, object]) -> list[Row]:
    """Name, faults and known reason of each program, in one sandbox."""
    with harness.Harness(config, **options) as sandbox:
        return [(p.name, sandbox.run(p), sandbox.known(p)) for p in programs]


def row(config: str, programs: list[harness.Program], options: dict[str, object]) -> None:
    """Run and print one configuration."""
    missing = harness.unmet(config)
    if missing:
        print(f"{config:28} {missing}")
        return
    start = time.monotonic()
    parts = [programs[k::THREADS] for k in range(min(THREADS, len(programs)))]
    with ThreadPoolExecutor(THREADS) as pool:
        rows = sorted(
            r for part in pool.map(lambda p: some(config, p, options), parts) for r in part
        )
    known = [name for name, faults, why in rows if faults and why]
    through = [(name, faults) for name, faults, why in rows if faults and not why]
    held = len(rows) - len(known) - len(through)
    seconds = time.monotonic() - start
    print(f"{config:28} {len(rows):8} {held:5} {len(known):5} {len(through):8} {seconds:8.0f}")
    if known:
        print("    open:", ", ".join(known))
    for name, faults in through:
        print(f"    THROUGH: {name}: {'; '.join(faults)[:200]!r}")
    sys.stdout.flush()


def controls(programs: list[harness.Program]) -> None:
    """Print which programs do harm without a sandbox, and why others can't show it."""

    def one(program: harness.Program) -> str | None:
        trap = Trap()
        try:
            return works_without(program, trap)
        finally:
            trap.close()

    shown = [p for p in programs if p.control[-1] != "none"]
    with ThreadPoolExecutor(2 * THREADS) as pool:
        failed = {p.name: why for p, why in zip(shown, pool.map(one, shown), strict=True) if why}
    print(f"do harm without a sandbox: {len(shown) - len(failed)} of {len(programs)}")
    for name, why in failed.items():
        print(f"    shows nothing: {name}: {why[:200]!r}")
    for program in programs:
        if program.control[-1] == "none":
            print(f"    no control: {program.name}: {program.why}")


def main() -> None:
    """Read the options, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("configs", nargs="*", metavar="CONFIG", help=", ".join(CONFIGS))
    parser.add_argument("--programs", type=Path, default=harness.OWN)
    parser.add_argument("--without", default="", help="layers switched off, by comma")
    parser.add_argument("--controls", action="store_true")
    options = parser.parse_args()
    unknown = set(options.configs) - set(CONFIGS)
    if unknown:
        parser.error(f"no configuration {', '.join(unknown)}; there are {', '.join(CONFIGS)}")
    programs = [p for p in harness.programs(options.programs) if not p.missing()]
    if not programs:
        parser.error(f"{options.programs}: no programs for this machine")
    if options.controls:
        controls(programs)
    off = tuple(filter(None, options.without.split(",")))
    made: dict[str, object] = {"off": off, "layers": "weak"} if off else {}
    print(f"{'configuration':28} programs  held  open  through  seconds")
    for config in options.configs or CONFIGS:
        row(config, programs, made)


if __name__ == "__main__":
    main()
