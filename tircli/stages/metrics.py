"""The body of `tir metrics`: judged trajectories in, one object of measures out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from tircli import compare, graders, jsonl, report
from tircli.metrics import measure
from tircli.records import Group, InputError
from tircli.stages import Skips, say, side_file


def run(
    input: str,
    *,
    by: list[str],
    pass_at: str | None,
    against: str | None,
    fail_under: list[str],
    judges: str | None,
    disagreements: str | None,
    overwrite: bool,
    as_json: bool | None,
    seed: int,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir metrics`."""
    skips = Skips(on_error)
    limits = dict(_limit(text) for text in fail_under)
    sizes = _sizes(pass_at)
    warn = (lambda text: None) if quiet else say

    def groups(source: str) -> Iterable[Group]:
        return jsonl.groups(jsonl.read(source, skips.action), warn)

    if judges is not None:
        if against or limits or by:
            raise InputError("--graders: goes without --compare, --by and --fail-under")
        result = _side_by_side(groups(input), judges, disagreements, overwrite)
        _show(result, as_json, lambda: [report.graders_table(result)])
        return 3 if skips.count else 0
    if disagreements is not None:
        raise InputError("--disagreements: goes with --graders")
    if against == "-" == input:
        raise InputError("--compare -: stdin is the input already; name a file")
    ours = compare.Side("stdin" if input == "-" else input)
    watched = groups(input) if against is None else ours.watch(groups(input))
    result = measure(watched, by=by, seed=seed, k=sizes)
    if against is not None:
        base = compare.Side(against)
        for group in groups(against):
            base.add(group)
        result["compare"] = compare.compare(ours, base, seed)
    _show(result, as_json, lambda: _tables(result))
    failed = report.fail_under(result, limits)
    for line in failed:
        say(line)
    return 1 if failed else 3 if skips.count else 0


def _tables(result: dict[str, Any]) -> list[Any]:
    tables: list[Any] = [report.table(result)]
    if "compare" in result:
        tables.append(report.compare_table(result["compare"]))
    return [*tables, report.text_plots(result)]


def _show(result: dict[str, Any], as_json: bool | None, tables: Callable[[], list[Any]]) -> None:
    if as_json is False or (as_json is None and sys.stdout.isatty()):
        from rich.console import Console
        from rich.text import Text

        console = Console()
        for part in tables():
            console.print(Text(part) if isinstance(part, str) else part)
        return
    stdout = jsonl.own_stdout()
    stdout.write(jsonl.encode(result))
    stdout.close()


def _side_by_side(
    groups: Iterable[Group], judges: str, disagreements: str | None, overwrite: bool
) -> dict[str, Any]:
    chosen = graders.load([name.strip() for name in judges.split(",")])
    path = side_file("--disagreements", disagreements, overwrite)
    if path is None:
        return graders.side_by_side(groups, chosen)
    with open(path, "wb") as out:
        return graders.side_by_side(groups, chosen, lambda row: _write(out, row))


def _write(out: Any, row: dict[str, Any]) -> None:
    out.write(jsonl.encode(row))


def _sizes(text: str | None) -> list[int]:
    try:
        return [int(part) for part in text.split(",")] if text else []
    except ValueError:
        raise InputError(f'--pass-at: "{text}"; write whole numbers by comma: 1,4,8') from None


def _limit(text: str) -> tuple[str, float]:
    name, sign, value = text.rpartition("=")
    try:
        if sign:
            return name, float(value)
    except ValueError:
        pass
    raise InputError(f'--fail-under: "{text}"; write NAME=NUMBER, for example correct=0.5')
