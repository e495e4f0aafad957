"""The Trainer of transformers with our loss, our evaluation, and folders that are whole."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers
from torch.utils.data import DataLoader

from tircli.records import EngineError, Json
from tircli.train import policy
from tircli.train.batch import Example, collate
from tircli.train.losses import token_losses
from tircli.train.settings import Settings

NAMES = {"learning_rate": "lr"}
"""Our words for the Trainer's."""
SAVING = ".saving"
"""Where folders are made below the run's own."""


def step_of(checkpoint: Path) -> int:
    """The update after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])


@dataclass
class Run:
    """What the Trainer below needs to know of a run."""

    settings: Settings
    tokenizer: Any
    keep: int
    """Checkpoints kept."""
    emit: Callable[[Json], None]
    records: int
    tokens: list[int] = field(default_factory=list)
    """Trained tokens up to the end of each update."""
    chosen: bool = False
    """The network can give the logits of chosen positions alone."""
    best: float = math.inf
    """Loss of the best evaluation so far."""


class TokenTrainer(transformers.Trainer):
    """The Trainer with our loss, our evaluation, our lines and folders that are whole."""

    def __init__(self, run: Run, net: Any, arguments: Any, data: Any, held_out: Any) -> None:
        super().__init__(net, arguments, train_dataset=data, eval_dataset=held_out)
        self.run, self.out = run, Path(arguments.output_dir)
        self.folder = self.out
        self.model_accepts_loss_kwargs = True  # so that the trained tokens of an update are counted
        self.remove_callback(transformers.PrinterCallback)

    def get_train_dataloader(self) -> Any:
        """The planned micro-batches in their order; each process takes its share."""
        collate_fn = lambda micros: self._batch(micros[0])  # noqa: E731
        data: Any = self.train_dataset
        pin = self.args.dataloader_pin_memory
        return self.accelerator.prepare(DataLoader(data, collate_fn=collate_fn, pin_memory=pin))

    def _batch(self, examples: Sequence[Example]) -> Json:
        return collate(examples, self.run.settings.packing)

    def compute_loss(
        self, model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """This micro-batch's part of the mean over the update's trained tokens."""
        loss = token_losses(model, inputs, self.run.chosen).sum() / num_items_in_batch
        # Gradients are averaged over processes, and the number counts the tokens of all.
        return loss * self.accelerator.num_processes

    @torch.no_grad()
    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Mean loss of a trained token of the held-out examples; the best so far is written."""
        held_out: Any = self.eval_dataset
        examples, size = list(held_out), self.run.settings.micro_batch
        rank, world = self.accelerator.process_index, self.accelerator.num_processes
        total = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        self.model_wrapped.eval()
        for start in range(0, len(examples), size * world):
            mine = examples[start + size * rank : start + size * (rank + 1)]
            # Sharded weights want all ranks in every pass: one without a share reads another's.
            batch = self._batch(mine or examples[:size])
            batch = {key: value.to(self.args.device) for key, value in batch.items()}
            with self.accelerator.autocast():
                losses = token_losses(self.model_wrapped, batch, self.run.chosen)
            if mine:
                total += torch.stack([losses.double().sum(), losses.new_tensor(len(losses))])
        total = self.accelerator.reduce(total)
        metrics = {"eval_loss": float(total[0] / total[1])}
        self.log(dict(metrics))
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        if metrics["eval_loss"] < self.run.best:
            self.run.best = metrics["eval_loss"]
            self.write("best", metrics)
        return metrics

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """One line for `emit`, and the same numbers for the reporters."""
        run, step = self.run, self.state.global_step
        loss = logs.get("loss", logs.get("eval_loss"))
        if loss is None:
            return  # the Trainer's own summary
        if not math.isfinite(loss):
            raise EngineError(f"update {step}: the loss is {loss}; lower --lr or see the records")
        seen = min(step * run.settings.batch, round(run.records * run.settings.epochs))
        self.state.epoch = seen / run.records
        super().log(logs, start_time)
        if self.is_world_process_zero():
            line = {"step": step, "epoch": round(self.state.epoch, 4), "tokens": run.tokens[step]}
            run.emit(line | {NAMES.get(k, k): v for k, v in logs.items() if k != "epoch"})

    def write(self, name: str, metrics: Json | None = None) -> None:
        """The model as it is now, as the folder `name`; all ranks take part."""
        part = self.out / SAVING / name
        self._fresh(part)
        self.save_model(str(part))
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            (part / "training_args.bin").unlink(missing_ok=True)
            self.run.tokenizer.save_pretrained(part)
            note = {"step": self.state.global_step, **(metrics or {})}
            (part / "sft.json").write_text(json.dumps(note) + "\n", "utf-8")
            policy.settle(part, self.out / name)
        self.accelerator.wait_for_everyone()

    def _fresh(self, part: Path) -> None:
        if self.args.should_save:
            shutil.rmtree(part, ignore_errors=True)
        self.accelerator.wait_for_everyone()

    def _get_output_dir(self, trial: Any) -> str:
        return str(self.folder)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """As the Trainer does it, but aside; renamed when whole. Older ones go."""
        name = f"checkpoint-{self.state.global_step}"
        part = self.out / SAVING / name
        self._fresh(part)
        self.folder = part.parent
        try:
            super()._save_checkpoint(model, trial)
        finally:
            self.folder = self.out
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            self.run.tokenizer.save_pretrained(part)
            policy.settle(part, self.out / name)
            for old in sorted(self.out.glob("checkpoint-*"), key=step_of)[: -self.run.keep]:
                shutil.rmtree(old)
        self.accelerator.wait_for_everyone()
