"""Seconds and memory of `tir sft` beside TRL's SFTTrainer: same model, records and batches.

usage: python benchmarks/sft.py [--model DIR] [--lora RANK] [--rounds N] [--records N] [--longest N]

Each round trains with both, one after the other, each in a process of its own (so that its peak
memory is its own), one thread, no packing, activations kept. Two epochs are run and the second is
measured: CPU seconds between its first and its last update, or wall seconds on a GPU. Without
--model a random llama is made: 6 layers of 256, 16,384 tokens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BATCH, MICRO = 16, 4


def examples(count: int, longest: int, vocabulary: int) -> list[Any]:
    """Trajectories of two model turns around an observation: about a third is trained."""
    from tircli.train.batch import Example

    rng = random.Random(0)
    made = []
    for i in range(count):
        prompt, result = (rng.randrange(longest // 8, longest // 3) for _ in range(2))
        turns = [rng.randrange(longest // 16, longest // 6) for _ in range(2)]
        trained = [
            *([False] * prompt + [True] * turns[0]),
            *([False] * result + [True] * turns[1]),
        ]
        made.append(Example(f"e{i}", [rng.randrange(vocabulary) for _ in trained], trained))
    return made


class Clock:
    """CPU time at the end of each update; wall time where a GPU works."""

    def __init__(self) -> None:
        import torch

        self.cuda = torch.cuda.is_available()
        self.times: list[float] = []

    def tick(self) -> None:
        self.times.append(time.perf_counter() if self.cuda else time.process_time())

    def seconds(self, updates: int) -> float:
        """Of the second epoch."""
        return self.times[2 * updates - 1] - self.times[updates - 1]


def ours(model: str, lora: int, rows: list[Any], out: str, clock: Clock) -> None:
    from tircli.train.settings import Settings
    from tircli.train.sft import train

    settings = Settings(
        lr=1e-5, batch=BATCH, micro_batch=MICRO, epochs=2, warmup=0.0, lora=lora, save_every=10**6
    )
    train(model, Path(out), rows, settings, emit=lambda line: clock.tick())


def theirs(model: str, lora: int, rows: list[Any], out: str, clock: Clock) -> None:
    import datasets
    import peft
    import torch
    import trl
    from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback

    class Tick(TrainerCallback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in logs:
                clock.tick()

    arguments = trl.SFTConfig(
        output_dir=out,
        per_device_train_batch_size=MICRO,
        gradient_accumulation_steps=BATCH // MICRO,
        num_train_epochs=2,
        learning_rate=1e-5,
        lr_scheduler_type="cosine",
        logging_steps=1,
        report_to="none",
        save_strategy="no",
        use_cpu=not clock.cuda,
        bf16=clock.cuda,
        dataloader_pin_memory=clock.cuda,
        activation_checkpointing=False,
        disable_tqdm=True,
        max_length=None,
    )
    config = peft.LoraConfig(r=lora, lora_alpha=2 * lora, target_modules="all-linear")
    half = lora and clock.cuda
    trainer = trl.SFTTrainer(
        AutoModelForCausalLM.from_pretrained(
            model, dtype=torch.bfloat16 if half else torch.float32
        ),
        arguments,
        train_dataset=datasets.Dataset.from_list(
            [
                {
                    "input_ids": e.ids,
                    "labels": [i if t else -100 for i, t in zip(e.ids, e.trained, strict=True)],
                }
                for e in rows
            ]
        ),
        processing_class=AutoTokenizer.from_pretrained(model),
        peft_config=config if lora else None,
        callbacks=[Tick()],
    )
    trainer.train()


def child(options: argparse.Namespace) -> None:
    """Train with one of the two and print the figures as the last line."""
    import torch
    from transformers import AutoConfig

    from tircli.train import sft  # noqa: F401 - both start with the same modules loaded

    torch.set_num_threads(1)
    rows = examples(
        options.records, options.longest, AutoConfig.from_pretrained(options.model).vocab_size
    )
    clock = Clock()
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = {"ours": ours, "trl": theirs}[options.child]
    with tempfile.TemporaryDirectory() as out:
        run(options.model, options.lora, rows, out, clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if clock.cuda:
        start, peak = 0, torch.cuda.max_memory_allocated() // 1024
    trained = sum(e.tokens for e in rows)
    seconds = clock.seconds(options.records // BATCH)
    print(json.dumps({
        "seconds": 1000 * seconds / trained, "peak": peak / 1024, "more": (peak - start) / 1024,
        "trained": trained, "tokens": sum(len(e.ids) for e in rows),
    }))  # fmt: skip


def random_model(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=16384,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=6,
            num_attention_heads=8,
            num_key_value_heads=8,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=0,
        )
    ).save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE({"<eos>": 0}, [])), eos_token="<eos>"
    ).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="")
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--records", type=int, default=64)
    parser.add_argument("--longest", type=int, default=300)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        if not options.model:
            random_model(Path(folder))
        model = options.model or folder
        found: dict[str, list[dict[str, float]]] = {"ours": [], "trl": []}
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        for number in range(options.rounds):
            for name in sorted(found, reverse=bool(number % 2)):
                command = [sys.executable, __file__, "--child", name, "--model", model]
                for key in ("lora", "records", "longest"):
                    command += [f"--{key}", str(getattr(options, key))]
                done = subprocess.run(command, capture_output=True, text=True, env=environment)
                if done.returncode:
                    sys.exit(f"{name} failed:\n{done.stderr[-2000:]}")
                figures = json.loads(done.stdout.splitlines()[-1])
                found[name].append(figures)
                memory = f"{figures['peak']:.0f} MB (+{figures['more']:.0f})"
                print(f"round {number + 1} {name:>4}: {figures['seconds']:.3f} s, peak {memory}")
    first = found["ours"][0]
    print(f"{first['trained']:.0f} of {first['tokens']:.0f} tokens trained an epoch; "
          "medians, per 1,000 trained tokens:")  # fmt: skip
    for key, unit in (("seconds", "s"), ("peak", "MB"), ("more", "MB above the start")):
        mine, other = (statistics.median(f[key] for f in found[name]) for name in ("ours", "trl"))
        print(f"  {key:>7}: tir {mine:.3f}, TRL {other:.3f} {unit}; tir / TRL {mine / other:.3f}")


if __name__ == "__main__":
    main()
