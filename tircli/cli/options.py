"""The options that several commands share, each declared once; and how a command ends."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

import typer

Input = Annotated[str, typer.Argument(metavar="[INPUT]", help="JSONL file; - is stdin.")]
Output = Annotated[str, typer.Option("--output", "-o", help="JSONL file; - is stdout.")]
OnError = Annotated[str, typer.Option(help="What a bad line does: fail or skip.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep what is whole, do the rest.")]
Plot = Annotated[str | None, typer.Option(help="Picture: a .png, .svg or .html file.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]

# The options of rewards, wherever a reward is named.
Reward = Annotated[
    str | None, typer.Option(help="correct, otc-ppo, otc-grpo or et, or package.module:function.")
]
OtcC = Annotated[float | None, typer.Option(help="OTC: smoothness c; else the limit of calls.")]
OtcAlpha = Annotated[float, typer.Option(help="OTC: factor alpha.")]
OtcN = Annotated[str, typer.Option(help="OTC: least calls of the group (local) or ever (global).")]
OtcLiteral = Annotated[bool, typer.Option("--otc-literal", help="OTC: score, then lower n.")]
OtcScaleFormat = Annotated[
    bool, typer.Option("--otc-scale-format", help="OTC: scale the format part too.")
]
RewardWrong = Annotated[float, typer.Option(help="Not et: reward of a wrong answer (ToRL: -1).")]
RewardFormat = Annotated[float, typer.Option(help="Not et: added where the form is right.")]
EtSigmaTool = Annotated[float, typer.Option(help="ET: sigma for calls in round 1.")]
EtSigmaLen = Annotated[float, typer.Option(help="ET: sigma for lengths in round 1.")]
EtGain = Annotated[float, typer.Option(help="ET: factor on both scores; the released code has 2.")]
EtMalformed = Annotated[str, typer.Option(help="ET: a malformed one: add -1, or replace by -1.")]
Round = Annotated[int, typer.Option(help="ET: this round, from 1; sigma falls with it.")]
Rounds = Annotated[int, typer.Option(help="ET: rounds in all.")]
SandboxLayers = Annotated[
    str, typer.Option("--sandbox", help="preferred, weak, or required=ns,landlock,seccomp.")
]
SandboxUrl = Annotated[
    str | None, typer.Option(help="A SandboxFusion-like service instead of the own sandbox.")
]
SandboxImport = Annotated[
    str, typer.Option(help="Packages beyond numpy and sympy, by comma; * is all installed.")
]

# The options of search, wherever a corpus is searched.
Corpus = Annotated[
    str, typer.Option(help="Searched: an index, or a corpus file (indexed on first use).")
]
SearchBackend = Annotated[
    str, typer.Option(help="bm25, lucene, dense, http, serper or searxng; else what is given.")
]
SearchUrl = Annotated[
    str, typer.Option(help="Search server: .../retrieve, .../search or .../batch_search.")
]
SearchModel = Annotated[str, typer.Option(help="Encoder of a dense index, if it has moved.")]
SearchCache = Annotated[str, typer.Option(help="SQLite file that keeps what was found.")]


def guarded(run: Callable[[], int]) -> typer.Exit:
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
