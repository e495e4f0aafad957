"""The commands of `tir`, their options and exit codes; the only package with typer."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

import tircli
from tircli.cli import helpers, judging, measuring, sampling, training

app = typer.Typer(
    name="tir",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Sample, judge, select, measure and train language models that call tools.

    Every command reads and writes JSONL, so that they pipe together.

    \b
    Exit codes: 0 done; 1 a bug or a failed --fail-under; 2 yours to fix; 3 done, but lines were
    skipped or records have errors; 130 interrupted; 141 the reader went away.
    """


app.command()(sampling.rollout)
app.command()(judging.judge)
app.command()(measuring.pareto)
app.command()(measuring.metrics)
app.command()(training.sft)
app.command("exec")(helpers.exec_)
app.command()(helpers.index)
app.command()(helpers.serve)
app.command()(helpers.doctor)


def main() -> None:
    """Run `tir` and leave with its exit code; wrong usage is one line on stderr."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends as Ctrl-C does: 130
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
