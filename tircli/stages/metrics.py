"""The body of `tir metrics`: judged trajectories in, one object of measures out."""

from __future__ import annotations

import sys

from tircli import jsonl
from tircli.metrics import measure
from tircli.records import InputError
from tircli.report import fail_under, table
from tircli.stages import Skips, say


def run(
    input: str,
    by: list[str],
    limits: list[str],
    as_json: bool | None,
    seed: int,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir metrics`."""
    skips = Skips(on_error)
    wanted = dict(_limit(text) for text in limits)
    warn = (lambda text: None) if quiet else say
    result = measure(jsonl.groups(jsonl.read(input, skips.action), warn), by=by, seed=seed)
    if as_json is False or (as_json is None and sys.stdout.isatty()):
        from rich.console import Console

        Console().print(table(result))
    else:
        stdout = jsonl.own_stdout()
        stdout.write(jsonl.encode(result))
        stdout.close()
    failed = fail_under(result, wanted)
    for line in failed:
        say(line)
    return 1 if failed else 3 if skips.count else 0


def _limit(text: str) -> tuple[str, float]:
    name, sign, value = text.rpartition("=")
    try:
        if sign:
            return name, float(value)
    except ValueError:
        pass
    raise InputError(f'--fail-under: "{text}"; write NAME=NUMBER, for example correct=0.5')
