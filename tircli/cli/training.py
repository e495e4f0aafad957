"""The command that trains: sft."""

from __future__ import annotations

from typing import Annotated

import typer

from tircli.cli.options import Input, OnError, Quiet, guarded


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
    by_reward: Annotated[
        bool, typer.Option("--by-reward", help="Of a question those of the highest reward.")
    ] = False,
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
    """Train a model on trajectories: on what the model wrote.

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
    raise guarded(lambda: stage.run(**options))
