"""The commands of `tir`, their options and exit codes; the only module with typer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

import tircli

app = typer.Typer(
    name="tir",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Input = Annotated[str, typer.Argument(metavar="[INPUT]", help="JSONL file; - is stdin.")]
Output = Annotated[str, typer.Option("--output", "-o", help="JSONL file; - is stdout.")]
OnError = Annotated[str, typer.Option(help="What a bad line does: fail or skip.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep what is whole, do the rest.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tir {tircli.__version__}")
        raise typer.Exit


@app.callback()
def _app(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Sample, judge and measure tool-integrated reasoning; every command reads and writes JSONL.

    \b
    Exit codes: 0 done; 1 a bug or a failed --fail-under; 2 yours to fix; 3 done, but lines were
    skipped or records have errors; 130 interrupted; 141 the reader went away.
    """


@app.command()
def rollout(
    input: Input = "-",
    output: Output = "-",
    model: Annotated[
        str, typer.Option("--model", "-m", help="Model folder, or replies for scripted.")
    ] = "",
    engine: Annotated[str, typer.Option(help="hf or scripted, or package.module:Class.")] = "hf",
    protocol: Annotated[str, typer.Option(help="How calls are written: a name or a .toml.")] = "et",
    samples: Annotated[
        int, typer.Option("--samples", "-k", min=1, help="Trajectories a question.")
    ] = 1,
    tools: Annotated[str, typer.Option(help="Tools the model may call, by comma.")] = "python",
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 1.0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Nucleus of sampling.")] = 1.0,
    max_tokens: Annotated[int, typer.Option(min=1, help="Model tokens a trajectory.")] = 4096,
    seed: Annotated[int, typer.Option(help="Seed of the run.")] = 0,
    concurrency: Annotated[int, typer.Option(min=1, help="Trajectories under way.")] = 64,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first N questions.")] = None,
    shard: Annotated[
        str | None, typer.Option(help="i/n: every n-th question from i (0..).")
    ] = None,
    final_turn: Annotated[
        bool, typer.Option("--final-turn/--no-final-turn", help="One answer turn at a limit.")
    ] = True,
    tokens: Annotated[
        bool, typer.Option("--tokens/--no-tokens", help="Keep ids and log-probabilities.")
    ] = True,
    tool_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds a python call.")] = 10.0,
    overwrite: Overwrite = False,
    resume: Resume = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Let a model answer questions while it calls tools.

    In: questions (question, answer, id, task) or unfinished trajectories. Out: one trajectory a
    line: segments (who wrote what, with ids), stop, prediction.

    \b
    Examples:
      tir rollout q.jsonl -m ./Qwen2.5-7B-Instruct -k 8 -o t.jsonl
      tir rollout sample_data/math.jsonl --engine scripted -m sample_data/replies.jsonl | tir judge
      tir rollout q.jsonl -m ./model --protocol torl -o t.jsonl --resume
    """
    from tircli.stages import rollout as stage

    options = dict(locals())
    options.pop("stage")
    raise _guarded(lambda: stage.run(**options))


@app.command()
def judge(
    input: Input = "-",
    output: Output = "-",
    judge: Annotated[
        str, typer.Option(help="auto, math, qa or exact, or package.module:function.")
    ] = "auto",
    overwrite: Overwrite = False,
    resume: Resume = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Compare each prediction with its gold answers.

    In: trajectories, or lines with question, answer and prediction. Out: the same with correct
    (0..1) and judge (name, why, em, format violations).

    \b
    Examples:
      tir judge t.jsonl -o judged.jsonl
      tir rollout q.jsonl -m ./model | tir judge --judge math | tir metrics
    """
    from tircli.stages import judge as stage

    raise _guarded(
        lambda: stage.run(
            input, output, judge, overwrite=overwrite, resume=resume, on_error=on_error, quiet=quiet
        )
    )


@app.command()
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
    overwrite: Overwrite = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Keep the groups whose samples differ most in correctness and calls.

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

    raise _guarded(
        lambda: stage.run(
            input,
            output,
            keep,
            keep_uniform=keep_uniform,
            pool=pool,
            report=report,
            overwrite=overwrite,
            on_error=on_error,
            quiet=quiet,
        )
    )


@app.command()
def metrics(
    input: Input = "-",
    by: Annotated[list[str] | None, typer.Option(help="Also for each value of a field.")] = None,
    fail_under: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: exit 1 below it; repeatable.")
    ] = None,
    json: Annotated[
        bool | None, typer.Option("--json/--table", help="Else a table on a terminal only.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Measure judged trajectories: accuracy, calls, tool productivity.

    In: judged trajectories. Out: one JSON object, a table on a terminal; each mean with its 95 %
    interval, clustered by question.

    \b
    Examples:
      tir metrics judged.jsonl
      tir metrics judged.jsonl --by task --fail-under correct=0.5 --json
    """
    from tircli.stages import metrics as stage

    raise _guarded(
        lambda: stage.run(input, by or [], fail_under or [], json, seed, on_error, quiet)
    )


@app.command()
def sft(
    input: Input = "-",
    model: Annotated[str, typer.Option("--model", "-m", help="Model folder or hub name.")] = "",
    out: Annotated[str, typer.Option(help="Folder for weights: last, best, checkpoint-N.")] = "",
    eval: Annotated[
        str | None, typer.Option(help="JSONL of held-out trajectories: their loss, and best.")
    ] = None,
    filter: Annotated[
        str | None, typer.Option(help="rft: correct, well-formed, no failed execution.")
    ] = None,
    per_question: Annotated[
        int | None, typer.Option(min=1, help="Trajectories of a question that rft keeps.")
    ] = None,
    size: Annotated[int | None, typer.Option(min=1, help="Trajectories that rft keeps.")] = None,
    preset: Annotated[str | None, typer.Option(help="Settings by name (et) or .toml.")] = None,
    lr: Annotated[
        float | None, typer.Option(help="Peak learning rate; 5e-6, with --lora 1e-4.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Trajectories an update; 32.")] = None,
    micro_batch: Annotated[
        int | None, typer.Option(help="Trajectories in one pass on a device; 4.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Passes over the data; 3.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="cosine (default), linear or constant.")
    ] = None,
    warmup: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Share of updates of rising rate; 0.1.")
    ] = None,
    weight_decay: Annotated[float | None, typer.Option(min=0.0, help="Of AdamW; 0.")] = None,
    clip: Annotated[
        float | None, typer.Option(min=0.0, help="Largest gradient norm; 1, 0 is none.")
    ] = None,
    lora: Annotated[
        int | None, typer.Option(min=1, help="Rank of an adapter; else all weights are trained.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Tokens a trajectory; else what the model holds.")
    ] = None,
    packing: Annotated[
        bool | None, typer.Option("--packing/--no-packing", help="A micro-batch in one row.")
    ] = None,
    checkpointing: Annotated[
        bool | None, typer.Option("--checkpointing", help="Less memory, more time.")
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help="Attention of transformers, say flash_attention_2.")
    ] = None,
    train_on_results: Annotated[
        bool, typer.Option("--train-on-results", help="Also learn tool results (the paper's sum).")
    ] = False,
    train_on_hints: Annotated[
        bool, typer.Option("--train-on-hints", help="Also learn inserted hints.")
    ] = False,
    show_mask: Annotated[
        int, typer.Option(min=0, metavar="N", help="Show what of N records is trained; no more.")
    ] = 0,
    save_every: Annotated[
        int | None, typer.Option(min=1, help="Updates between checkpoints; else an epoch.")
    ] = None,
    eval_every: Annotated[
        int | None, typer.Option(min=1, help="Updates between evaluations; else an epoch.")
    ] = None,
    keep: Annotated[int, typer.Option(min=1, help="Checkpoints kept.")] = 1,
    report_to: Annotated[
        list[str] | None, typer.Option(help="tensorboard, wandb or trackio; repeatable.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the run.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint.")
    ] = False,
    on_error: OnError = "fail",
    quiet: Quiet = False,
) -> None:
    """Train a model on trajectories: on what it wrote, not on what tools said.

    In: trajectories. Out: one line of metrics an update (step, epoch, tokens, loss, lr, grad_norm)
    and a last one that sums up; model folders last and best under --out. Several processes:
    accelerate launch -m tircli.cli sft ...

    \b
    Examples:
      tir sft judged.jsonl -m ./model --out run --filter rft --per-question 4 --preset et
      tir sft t.jsonl -m ./model --out run --lora 16 --eval held_out.jsonl
      tir sft t.jsonl -m ./model --show-mask 3
    """
    from tircli.stages import sft as stage

    options = dict(locals()) | {"report_to": report_to or []}
    options.pop("stage")
    raise _guarded(lambda: stage.run(**options))


@app.command()
def doctor() -> None:
    """Show what works on this machine, and what to install for the rest.

    In: nothing. Out: a table.

    \b
    Examples:
      tir doctor
    """
    from tircli.stages import doctor as stage

    raise _guarded(stage.run)


def _guarded(run: Callable[[], int]) -> typer.Exit:
    """The exit with the code of `run`; every expected failure is one line on stderr."""
    from tircli.records import EngineError, InputError

    try:
        return typer.Exit(run())
    except (InputError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return typer.Exit(2)
    except BrokenPipeError:
        return typer.Exit(141)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; go on with --resume\n")
        return typer.Exit(130)


def main() -> None:
    """Run `tir` and leave with its exit code; wrong usage is one line on stderr."""
    try:
        code = app(standalone_mode=False)
    except typer.Abort:
        code = 130
    except Exception as error:
        # typer carries click inside or beside it, by version: its usage errors know themselves.
        if not hasattr(error, "format_message"):
            raise
        sys.stderr.write(f"{error.format_message()}; see tir --help\n")
        code = 2
    sys.exit(code or 0)


if __name__ == "__main__":
    main()
