"""The body of `tir metrics`: judged trajectories in, one object of measures out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tircli import compare, jsonl, plots, report, scatter
from tircli.metrics import measure
from tircli.records import Group, InputError
from tircli.slices import name_of
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
    plot: str | None,
    tsne: int | None,
    embedder: str | None,
    overwrite: bool,
    as_json: bool | None,
    seed: int,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir metrics`."""
    skips = Skips(on_error)
    limits, sizes = dict(_limit(text) for text in fail_under), _sizes(pass_at)
    warn = (lambda text: None) if quiet else say

    def groups(source: str) -> Iterable[Group]:
        return jsonl.groups(jsonl.read(source, skips.action), warn)

    if judges is not None:
        if against or limits or by or plot:
            raise InputError("--graders: goes without --compare, --by, --fail-under and --plot")
        result = _side_by_side(groups(input), judges, disagreements, overwrite)
        _show(result, as_json, lambda: [report.graders_table(result)])
        return 3 if skips.count else 0
    if disagreements is not None:
        raise InputError("--disagreements: goes with --graders")
    if against == input:
        raise InputError(f"--compare {against}: is the input itself; name another run")
    picture = _Picture(side_file("--plot", plot, overwrite), tsne, embedder, by, against, seed)
    name = "stdin" if input == "-" else input
    if against is None:
        result = measure(picture.watch(groups(input), name), by=by, seed=seed, k=sizes)
        picture.draw(result.get("by") or {name: result})
    else:
        ours, base = compare.Side(name), compare.Side(against)
        watched = picture.watch(ours.watch(groups(input)), name)
        result = measure(watched, by=by, seed=seed, k=sizes)
        other = measure(picture.watch(base.watch(groups(against)), against), seed=seed)
        result["compare"] = compare.compare(ours, base, seed)
        picture.draw({name: result, against: other})
    _show(result, as_json, lambda: _tables(result))
    failed = report.fail_under(result, limits)
    for line in failed:
        say(line)
    return 1 if failed else 3 if skips.count else 0


class _Picture:
    """What `--plot` asks for; without it nothing is kept and nothing drawn."""

    def __init__(
        self,
        path: Path | None,
        tsne: int | None,
        embedder: str | None,
        by: list[str],
        against: str | None,
        seed: int,
    ) -> None:
        if embedder is not None and tsne is None:
            raise InputError("--embedder: goes with --tsne")
        if tsne is not None and path is None:
            raise InputError("--tsne: goes with --plot")
        if tsne is not None:
            scatter.check(embedder)
        if path is not None:
            plots.check("--plot", path)
            if len(by) > 1:
                raise InputError("--plot: draws the slices of one --by; give one")
        self._path, self._embedder = path, embedder
        self._field = by[0] if by and against is None else None
        self._texts = scatter.Texts(tsne, seed) if tsne is not None else None

    def watch(self, groups: Iterable[Group], name: str) -> Iterable[Group]:
        """The same groups; what the map needs is taken from them as they pass."""
        if self._texts is None:
            yield from groups
            return
        for group in groups:
            for trajectory in group:
                run = name_of(trajectory, self._field) if self._field else name
                self._texts.add(run, trajectory)
            yield group

    def draw(self, runs: dict[str, Any]) -> None:
        """Writes the picture of these runs."""
        if self._path is not None:
            points = self._texts.map(self._embedder) if self._texts is not None else None
            figure = plots.runs_figure(runs, points)
            plots.save(figure, self._path, f"tir metrics: {', '.join(runs)}")


def _tables(result: dict[str, Any]) -> list[Any]:
    tables: list[Any] = [report.table(result)]
    if "compare" in result:
        tables.append(report.compare_table(result["compare"]))
    return [*tables, report.text_plots(result)]


def _show(result: dict[str, Any], as_json: bool | None, tables: Callable[[], list[Any]]) -> None:
    if as_json is False or (as_json is None and sys.stdout.isatty()):
        from rich.console import Console
        from rich.text import Text

        # Text for a file or a pipe is as wide as it needs; a terminal decides for itself.
        console = Console() if sys.stdout.isatty() else Console(width=160)
        for part in tables():
            console.print(Text(part) if isinstance(part, str) else part)
        return
    stdout = jsonl.own_stdout()
    stdout.write(jsonl.encode(result))
    stdout.close()


def _side_by_side(
    groups: Iterable[Group], judges: str, disagreements: str | None, overwrite: bool
) -> dict[str, Any]:
    from tircli import graders  # the judges bring sympy along

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
