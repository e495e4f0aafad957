"""The commands that select and measure: pareto and metrics."""

from __future__ import annotations

from typing import Annotated

import typer

from tircli.cli.options import Input, OnError, Output, Overwrite, Plot, Quiet, guarded


def pareto(
    keep: Annotated[int, typer.Option("--keep", min=1, help="Groups to keep.")],
    input: Input = "-",
    output: Output = "-",
    keep_uniform: Annotated[
        bool, typer.Option("--keep-uniform", help="Also groups all right or all wrong.")
    ] = False,
    pool: Annotated[
        bool, typer.Option("--pool", help="One population; else tasks in proportion.")
    ] = False,
    report: Annotated[
        str | None, typer.Option(help="JSON file: fronts, kept, shortfall, set aside and why.")
    ] = None,
    plot: Plot = None,
    overwrite: Overwrite = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Keep the groups that differ most in correctness and calls.

    In: groups of trajectories; where correct is null, the rule judge fills it. Out: the groups that
    are kept, whole, in the order of the input. A group is scored by the standard deviations of
    correct and of calls over its members that have correct; those with an error, unfinished or
    without a gold answer are left out of the score. Kept front by front (non-dominated sorting),
    the last front by crowding distance. A pipe is copied to a temporary file (TMPDIR) on its way.

    \b
    Examples:
      tir pareto judged.jsonl --keep 64 -o hard.jsonl --report report.json
      tir rollout q.jsonl -m ./model -k 16 | tir pareto --keep 64 | tir metrics
    """
    from tircli.stages import pareto as stage

    raise guarded(
        lambda: stage.run(
            input,
            output,
            keep,
            keep_uniform=keep_uniform,
            pool=pool,
            report=report,
            plot=plot,
            overwrite=overwrite,
            on_error=on_error,
            quiet=quiet,
        )
    )


def metrics(
    input: Input = "-",
    by: Annotated[
        list[str] | None,
        typer.Option(help="Also for each value of a field (made.model; a,b crosses); repeatable."),
    ] = None,
    pass_at: Annotated[
        str | None, typer.Option(help="The k of pass@k, by comma; else powers of two.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--compare", help="Compare with this run, question by question.")
    ] = None,
    fail_under: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE: exit 1 below it; also task=math/correct=0.5; repeatable."),
    ] = None,
    judges: Annotated[
        str | None, typer.Option("--graders", help="Judges to set side by side, by comma.")
    ] = None,
    disagreements: Annotated[
        str | None, typer.Option(help="JSONL file: what the --graders differ on.")
    ] = None,
    plot: Plot = None,
    tsne: Annotated[
        int | None,
        typer.Option(min=5, help="Also map at most N trajectories a run by t-SNE of TF-IDF."),
    ] = None,
    embedder: Annotated[
        str | None, typer.Option(help="Folder of an embedding model for --tsne, in TF-IDF's place.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: Annotated[
        bool | None, typer.Option("--json/--table", help="Else a table on a terminal only.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of resampling and random swaps.")] = 0,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Measure judged trajectories: accuracy, calls, tool productivity.

    In: judged trajectories. Out: one JSON object, a table on a terminal; each mean with its 95 %
    interval, clustered by question. conciseness needs judge.redundant (true or false), which
    tir judge --redundancy fills. --compare pairs questions by group: more or less accurate (MA,
    LA), more or less efficient (ME, LE), tie, and differences with interval, p-value and the
    smallest difference that such data would show. --graders judges again and writes nothing
    back; recorded is the verdict in the record.

    \b
    Examples:
      tir metrics judged.jsonl
      tir metrics judged.jsonl --by task --by made.model --fail-under correct.low=0.5 --json
      tir metrics after.jsonl --compare before.jsonl --fail-under compare/correct.low=-0.02
      tir metrics judged.jsonl --graders recorded,math --disagreements split.jsonl
      tir metrics after.jsonl --compare before.jsonl --plot runs.html --tsne 500
    """
    from tircli.stages import metrics as stage

    options = dict(locals())
    options.pop("stage")
    options["by"], options["fail_under"] = by or [], fail_under or []
    raise guarded(lambda: stage.run(**options))
