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
    if output == "-":
        stdout = jsonl.own_stdout()
    else:
        # The writer begins when the choice is made: a bad line shall leave no half file behind.
        side_file("--output", output, overwrite)
        stdout = None
    sampler = Sampler(keep, keep_uniform=keep_uniform, pool=pool)
    with Spool(input) as spool:
        _score(spool, sampler, skips, Progress(quiet=quiet))
        offsets = sampler.choose()
        with jsonl.Writer(output, stdout, overwrite=overwrite) as writer:
            for group in filled(map(spool.group_at, offsets)):
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


def _score(spool: Spool, sampler: Sampler, skips: Skips, progress: Progress) -> None:
    """Reads all groups once; the sampler takes their scores and offsets."""
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


def _summary(result: dict[str, Any]) -> str:
    aside = ", ".join(f"{n} {why}" for why, n in result["set_aside"].items() if n)
    text = f"kept {result['kept']} of {result['groups']} groups"
    text += f"; set aside: {aside}" if aside else ""
    if result["shortfall"]:
        text += f"; {result['shortfall']} fewer than --keep {result['keep']}"
    return text
