"""The body of `tir judge`: trajectories in, the same with `correct` and `judge` out."""

from __future__ import annotations

from tircli import jsonl
from tircli.judge import judge
from tircli.progress import Progress
from tircli.stages import Skips, say


def run(
    input: str,
    output: str,
    name: str,
    *,
    overwrite: bool,
    resume: bool,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir judge`."""
    skips = Skips(on_error)
    progress = Progress(quiet=quiet)
    with jsonl.Writer(output, overwrite=overwrite, resume=resume) as writer:
        new = (t for t in jsonl.read(input, skips.action) if t.id not in writer.kept)
        for group in judge(jsonl.groups(new, say), name):
            for trajectory in group:
                writer.write(trajectory)
                progress.add(trajectory)
        writer.finish()
    progress.show(end=True)
    return 3 if skips.count or progress.errors else 0
