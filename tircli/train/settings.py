"""How `tir sft` trains: the settings, their defaults, and presets that replace these."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tircli import templates
from tircli.records import InputError, Json

REPORTERS = {"tensorboard": "tensorboard", "wandb": "wandb", "trackio": "trackio"}
"""Where metrics may go besides stdout: name and package."""
SCHEDULES = ("cosine", "linear", "constant")
LORA_LR = 1e-4
"""Learning rate of an adapter where none is given; ours."""


@dataclass(frozen=True)
class Settings:
    """How a run trains; stored in its folder, and compared when it is resumed."""

    lr: float = 5e-6
    """"learning rate of 5e-6" (ET-Agent, appendix, training details)."""
    batch: int = 32
    """Trajectories an update, on all devices: "a batch size set to 32" (ET-Agent)."""
    epochs: float = 3.0
    """"a total of three epochs" (ET-Agent)."""
    micro_batch: int = 4
    """Trajectories in one pass on one device: memory and speed, never the result."""
    schedule: str = "cosine"
    """`cosine`, `linear` (both to zero) or `constant`, after the warm-up."""
    warmup: float = 0.1
    """Share of the updates in which the learning rate rises from zero."""
    weight_decay: float = 0.0
    clip: float = 1.0
    """Largest norm of the gradient; 0 = no limit."""
    packing: bool = False
    """All of a micro-batch in one row, without attention between samples."""
    lora: int = 0
    """Rank of the adapter; 0 = all weights are trained."""
    checkpointing: bool = False
    """Compute activations again in the backward pass."""
    attention: str | None = None
    """Attention of transformers (`sdpa`, `eager`, `flash_attention_2`, ...); None = its choice."""
    save_every: int = 0
    """Updates between checkpoints; 0 = once an epoch."""
    eval_every: int = 0
    """Updates between evaluations; 0 = once an epoch."""
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch", "micro_batch"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')}: must be 1 or more")
        for name in ("lr", "epochs"):
            if not getattr(self, name) > 0:
                raise InputError(f"--{name}: must be more than 0")
        if self.schedule not in SCHEDULES:
            raise InputError(f'--schedule: "{self.schedule}"; choose {", ".join(SCHEDULES)}')


def choose(preset: str | None, options: Json) -> Settings:
    """The settings: an option given (not None) wins over the preset, the preset over defaults."""
    known = {field.name for field in fields(Settings)}
    table: Json = {}
    if preset is not None:
        table = templates.load("presets", preset).get("sft", {})
        for name in table:
            if name not in known:
                raise InputError(f'preset {preset}: no setting "{name}"; there are {sorted(known)}')
    given = {name: value for name, value in options.items() if value is not None}
    if given.get("lora") and "lr" not in table:
        table["lr"] = LORA_LR
    return Settings(**{**table, **given})
