"""The body of `tir sft`: trajectories in, metrics lines out, weights below `--out`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tircli import jsonl
from tircli.judge import judge
from tircli.records import Group, InputError, Json, RecordError, Trajectory
from tircli.stages import Skips, say
from tircli.train.audit import Audit, runs
from tircli.train.batch import Example, example, roles
from tircli.train.filter import rft
from tircli.train.settings import choose

OURS = ("best", "last", "sft.json", ".saving", "runs")
"""What a run's folder holds besides checkpoints."""


def run(
    *,
    input: str,
    model: str,
    out: str,
    eval: str | None,
    filter: str | None,
    per_question: int | None,
    size: int | None,
    by_reward: bool,
    max_length: int | None,
    train_on_results: bool,
    train_on_hints: bool,
    show_mask: int,
    keep: int,
    report_to: list[str],
    preset: str | None,
    overwrite: bool,
    resume: bool,
    on_error: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Exit code of `tir sft`."""
    first = os.environ.get("RANK", "0") == "0"  # of several processes
    tell = say if first and not quiet else lambda text: None
    settings = choose(preset, options)
    if not model:
        raise InputError("--model: missing; name a model folder")
    if filter not in (None, "rft"):
        raise InputError(f'--filter: "{filter}"; choose rft')
    if filter is None and (per_question or size or by_reward):
        raise InputError("--per-question, --size, --by-reward: need --filter rft; add it")
    if input == "-" and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("stdin: several processes cannot share it; name an input file")
    if first and not show_mask:
        _folder(out, overwrite, resume)
    skips = Skips(on_error)
    trajectories: Iterable[Trajectory] = jsonl.read(input, skips.action)
    if filter:
        rules: Json = {"per_question": per_question, "size": size, "by_reward": by_reward}
        trajectories = _filtered(trajectories, rules | {"seed": settings.seed}, tell)
    from tircli.train import policy

    audit = Audit(policy.tokenizer(model))
    lengths = [length for length in (max_length, policy.context(model)) if length is not None]
    on = roles(train_on_results, train_on_hints)
    make = _Maker(audit, on, min(lengths, default=None), skips, tell)
    if show_mask:
        return _show(make(trajectories), audit.tokenizer, show_mask)
    stdout = jsonl.own_stdout()
    examples = list(make(trajectories))
    held_out = list(make(jsonl.read(eval, skips.action))) if eval else []
    if not examples:
        raise InputError(f"{input}: no record to train on; see what was skipped or filtered")
    from tircli.train import sft

    tell(f"{len(examples)} records, {sum(e.tokens for e in examples)} trained tokens an epoch")
    summary = sft.train(
        model,
        Path(out),
        examples,
        settings,
        held_out=held_out,
        resume=resume,
        keep=keep,
        report_to=report_to,
        emit=_Lines(stdout, tell),
    )
    if first:
        stdout.write(jsonl.encode(summary))
    stdout.close()
    return 3 if skips.count else 0


def _folder(out: str, overwrite: bool, resume: bool) -> Path:
    """The folder of the run: not there, empty, or one that the options say what to do with."""
    if not out:
        raise InputError("--out: missing; name a folder for the weights")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{out}: a file; name a folder with --out")
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    foreign = [n for n in names if n not in OURS and not n.startswith(("checkpoint-", "."))]
    if foreign:
        raise InputError(f'{out}: holds "{foreign[0]}", not of tir sft; choose another folder')
    if names and not (overwrite or resume):
        raise InputError(f"{out}: holds a run; add --overwrite, --resume or choose another name")
    return folder


def _filtered(
    trajectories: Iterable[Trajectory], rules: Json, tell: Callable[[str], None]
) -> list[Trajectory]:
    """Those that pass the RFT filter; the rule judge judges what is not judged yet."""
    kept, rejected = rft(_judged(jsonl.groups(trajectories)), **rules)
    reasons = ", ".join(f"{count} {why}" for why, count in rejected.most_common())
    tell(f"filter rft: {len(kept)} kept" + (f"; rejected: {reasons}" if reasons else ""))
    return kept


def _judged(groups: Iterable[Group]) -> Iterator[Group]:
    for group in groups:
        for _ in judge([[t for t in group if t.correct is None]]):
            pass  # filled in place
        yield group


class _Maker:
    """Trajectories to examples, with all that is skipped or cut said at the end."""

    def __init__(
        self,
        audit: Audit,
        on: frozenset[str],
        max_length: int | None,
        skips: Skips,
        tell: Callable[[str], None],
    ) -> None:
        self.audit, self.on, self.max_length = audit, on, max_length
        self.skips, self.tell = skips, tell

    def __call__(self, trajectories: Iterable[Trajectory]) -> Iterator[Example]:
        cut = empty = 0
        before = self.audit.tokenised
        for trajectory in trajectories:
            try:
                whole = self.audit(trajectory)
            except RecordError as error:
                if self.skips.action is None:
                    raise
                self.skips.action(error)
                continue
            made = example(whole, self.on, self.max_length)
            cut += self.max_length is not None and len(whole.token_ids or []) > self.max_length
            empty += not made.tokens
            if made.tokens:
                yield made
        if self.audit.tokenised > before:
            count = self.audit.tokenised - before
            self.tell(f"{count} records without ids: tokenised now, segment by segment")
        if cut:
            lost = f"; {empty} left out, nothing to train on was left" if empty else ""
            self.tell(f"{cut} records over {self.max_length} tokens: cut at a segment's end{lost}")


class _Lines:
    """Metrics lines to stdout, and one for people now and then."""

    def __init__(self, stdout: BinaryIO, tell: Callable[[str], None]) -> None:
        self.stdout, self.tell = stdout, tell
        self.every = 2.0 if sys.stderr.isatty() else 30.0
        self.start = self.told = time.monotonic()

    def __call__(self, line: Json) -> None:
        now = time.monotonic()
        line = line | {"seconds": round(now - self.start, 3)}
        self.stdout.write(jsonl.encode(line))
        self.stdout.flush()
        if "eval_loss" in line or now - self.told >= self.every:
            self.told = now
            name = "eval_loss" if "eval_loss" in line else "loss"
            self.tell(f"update {line['step']}, epoch {line['epoch']:.2f}: {name} {line[name]:.4f}")


def _show(examples: Iterator[Example], tokenizer: Any, count: int) -> int:
    """Print what is trained of the first `count` examples: green, or between marks."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    plain = console.color_system is None or console.no_color
    for made, _ in zip(examples, range(count), strict=False):
        console.print(
            f"--- {made.id}: {made.tokens} of {len(made.ids)} tokens trained", markup=False
        )
        shown = Text()
        for text, trained in runs(made, tokenizer):
            marked = f"\u27e6{text}\u27e7" if trained and plain else text
            shown.append(marked, style="bold green" if trained else "dim")
        console.print(shown)
    return 0
