"""Rejection-sampling fine-tuning (SPEC 6.1): transformers.Trainer on our ids and our loss.

- The loss of an update is the sum over its trained tokens of -ln p, divided by their number, on
  whatever devices and in whatever micro-batches they lie.
- The whole run is planned before it starts (`batch.plan`), as one pass of the Trainer over a list
  of micro-batches: a resumed run skips what is done and reads on where it stopped.
- Checkpoints, `best` and `last` are written beside their place and renamed when whole.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import TrainingArguments

from tircli.records import InputError, Json, MissingExtra
from tircli.train import policy
from tircli.train.batch import Example, plan
from tircli.train.settings import REPORTERS, Settings
from tircli.train.trainer import SAVING, Run, TokenTrainer, step_of


def train(
    model: str,
    out: Path,
    examples: Sequence[Example],
    settings: Settings,
    *,
    held_out: Sequence[Example] = (),
    resume: bool = False,
    keep: int = 1,
    report_to: Sequence[str] = (),
    emit: Callable[[Json], None] = lambda line: None,
) -> Json:
    """Train `model` on `examples` and write `last`, `best` and checkpoints below `out`.

    `emit` gets one object of metrics an update; the returned one sums the run up. Raises
    InputError for what cannot work, EngineError for a loss that is not finite.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    micros = _plan(examples, settings, world)
    accumulation = settings.batch // (settings.micro_batch * world)
    arguments = _arguments(
        out,
        settings,
        report_to,
        steps=math.ceil(len(micros) / (world * accumulation)),
        accumulation=accumulation,
        per_epoch=max(1, math.ceil(len(examples) / settings.batch)),
        evaluates=bool(held_out),
    )
    identity = _identity(model, examples, settings)
    start = _prepare(out, identity, resume, arguments)
    run = Run(settings, policy.tokenizer(model), keep, emit, len(examples))
    run.tokens = _counts(examples, micros, world * accumulation)
    run.best = _best_before(out, start)
    begun = time.monotonic()
    _fit(model, run, arguments, [[examples[i] for i in m] for m in micros], held_out, start)
    gc.collect()  # the trained network goes before its folder is loaded again
    if arguments.should_save:
        for name in ("last", "best"):
            folder = out / name
            if folder.exists() and not (folder / "adapter").exists():
                policy.deliver(model, folder, out / SAVING / name)
    counts = {"steps": arguments.max_steps, "records": len(examples), "tokens": run.tokens[-1]}
    seconds = {"seconds": round(time.monotonic() - begun, 3)}
    return {"done": True} | counts | seconds | ({"eval_loss": run.best} if held_out else {})


def _fit(
    model: str,
    run: Run,
    arguments: Any,
    data: list[list[Example]],
    held_out: Sequence[Example],
    start: Path | None,
) -> None:
    """Train on `data` and write `last` as it comes out of training."""
    transformers.set_seed(run.settings.seed)
    net = _network(model, run.settings, arguments)
    run.chosen = policy.keeps_logits(net)
    trainer = TokenTrainer(run, net, arguments, data, list(held_out) or None)
    with trainer.accelerator.autocast():
        if run.settings.packing and not policy.packs(trainer.model):
            raise InputError(
                f"--packing: {model} lets samples in one row see each other; leave --packing out"
            )
    trainer.train(resume_from_checkpoint=None if start is None else str(start))
    trainer.write("last")
    trainer.accelerator.free_memory()


def _plan(examples: Sequence[Example], settings: Settings, world: int) -> list[list[int]]:
    if settings.batch % (settings.micro_batch * world):
        raise InputError(
            f"--batch {settings.batch}: not a multiple of --micro-batch {settings.micro_batch} "
            f"times {world} processes; change one of them"
        )
    micros = plan(
        [len(e.ids) for e in examples],
        epochs=settings.epochs,
        batch=settings.batch,
        micro_batch=settings.micro_batch,
        world=world,
        packing=settings.packing,
        seed=settings.seed,
    )
    if not micros:
        raise InputError(f"{len(examples)} records for {world} processes; give more records")
    return micros


def _arguments(
    out: Path,
    settings: Settings,
    report_to: Sequence[str],
    *,
    steps: int,
    accumulation: int,
    per_epoch: int,
    evaluates: bool,
) -> Any:
    """The Trainer's arguments: one epoch over the planned micro-batches."""
    for name in report_to:
        if name not in REPORTERS:
            raise InputError(f'--report-to: "{name}"; choose {", ".join(REPORTERS)}')
        if importlib.util.find_spec(REPORTERS[name]) is None:
            raise MissingExtra(f"--report-to {name}: needs it; pip install {REPORTERS[name]}")
    cuda = torch.cuda.is_available()
    schedule = settings.schedule
    arguments = TrainingArguments(
        output_dir=str(out),
        per_device_train_batch_size=1,  # one micro-batch of ours
        gradient_accumulation_steps=accumulation,
        num_train_epochs=1,
        max_steps=steps,
        warmup_steps=math.ceil(settings.warmup * steps),
        learning_rate=settings.lr,
        lr_scheduler_type="constant_with_warmup" if schedule == "constant" else schedule,
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.clip,
        bf16=cuda and torch.cuda.is_bf16_supported(),
        use_cpu=not cuda,
        seed=settings.seed,
        save_strategy="steps",
        save_steps=settings.save_every or per_epoch,
        eval_strategy="steps" if evaluates else "no",
        eval_steps=settings.eval_every or per_epoch,
        logging_steps=1,
        logging_nan_inf_filter=False,
        report_to=list(report_to) or "none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=cuda,
        ddp_find_unused_parameters=False,
        average_tokens_across_devices=True,
        label_names=["labels"],
    )
    if arguments.n_gpu > 1:
        arguments._n_gpu = 1  # one process trains on one GPU; accelerate launch is for more
    return arguments


def _network(model: str, settings: Settings, arguments: Any) -> Any:
    """The network to train: float32 weights, or a frozen base of the device's type under LoRA."""
    half = settings.lora and arguments.bf16
    net = policy.load(model, dtype="bfloat16" if half else "float32", attention=settings.attention)
    if settings.checkpointing:
        policy.checkpoint_activations(net)
    return policy.with_lora(net, settings.lora) if settings.lora else net


def _identity(model: str, examples: Sequence[Example], settings: Settings) -> Json:
    """What a resumed run must share with the one that it goes on with."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(repr((example.ids, example.trained)).encode())
    return {"model": model, "data": digest.hexdigest(), **asdict(settings)}


def _prepare(out: Path, identity: Json, resume: bool, arguments: Any) -> Path | None:
    """The newest checkpoint when resuming; else an earlier run is removed, `sft.json` written."""
    for name in ("best", "last"):
        policy.settled(out / name)
    record = out / "sft.json"
    if resume and record.exists():
        before = json.loads(record.read_text("utf-8"))
        other = {k: v for k, v in before.items() if identity.get(k) != v}
        if other:
            raise InputError(f"--resume: {out} was made with {other}; use the same")
    elif arguments.should_save:
        out.mkdir(parents=True, exist_ok=True)
        for old in (*out.glob("checkpoint-*"), *(out / name for name in ("best", "last", SAVING))):
            shutil.rmtree(old, ignore_errors=True)
        record.write_text(json.dumps(identity, indent=1) + "\n", "utf-8")
    found = sorted(out.glob("checkpoint-*"), key=step_of) if resume else []
    return found[-1] if found else None


def _best_before(out: Path, start: Path | None) -> float:
    """Loss of the best evaluation up to the checkpoint `start`; later ones are done again."""
    note = out / "best" / "sft.json"
    if start is None or not note.exists():
        return math.inf
    known = json.loads(note.read_text("utf-8"))
    return float(known["eval_loss"]) if known["step"] <= step_of(start) else math.inf


def _counts(examples: Sequence[Example], micros: list[list[int]], width: int) -> list[int]:
    """Trained tokens up to the end of each update, 0 before the first."""
    total, counts = 0, [0]
    for start in range(0, len(micros), width):
        total += sum(examples[i].tokens for micro in micros[start : start + width] for i in micro)
        counts.append(total)
    return counts
