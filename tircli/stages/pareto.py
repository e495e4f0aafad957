"""The body of `tir pareto`: groups in, the groups worth training on out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tircli import jsonl, plots
from tircli.pareto import Sampler, filled
from tircli.progress import Progress
from tircli.records import Group
from tircli.spool import Spool
from tircli.stages import Skips, say, side_file


def run(
    input: str,
    output: str,
    keep: int,
    *,
    keep_uniform: bool,
    pool: bool,
    report: str | None,
    plot: str | None,
    overwrite: bool,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir pareto`."""
    skips = Skips(on_error)
    report_file = side_file("--report", report, overwrite)
    picture = side_file("--plot", plot, overwrite)
    if picture is not None:
        plots.check("--plot", picture)
    sampler = Sampler(keep, keep_uniform=keep_uniform, pool=pool)
    progress = Progress(quiet=quiet)
    with jsonl.Writer(output, overwrite=overwrite) as writer, Spool(input) as spool:
        offsets: list[int] = []

        def read() -> Iterator[Group]:
            for offset, group in spool.groups(skips.action, say):
                offsets.append(offset)
                yield group

        for group in filled(read()):
            sampler.add(group, offsets.pop())
            for trajectory in group:
                progress.add(trajectory)
        progress.show(end=True)
        for group in filled(map(spool.group_at, sampler.choose())):
            for trajectory in group:
                writer.write(trajectory)
        writer.finish()
    result = sampler.report()
    if report_file is not None:
        report_file.write_bytes(jsonl.encode(result))
    if picture is not None:
        plots.save(plots.pareto_figure(sampler.populations), picture, "tir pareto")
    if not quiet or result["shortfall"]:
        say(_summary(result))
    return 3 if skips.count else 0


def _summary(result: dict[str, Any]) -> str:
    aside = ", ".join(f"{n} {why}" for why, n in result["set_aside"].items() if n)
    text = f"kept {result['kept']} of {result['groups']} groups"
    text += f"; set aside: {aside}" if aside else ""
    if result["shortfall"]:
        text += f"; {result['shortfall']} fewer than --keep {result['keep']}"
    return text
