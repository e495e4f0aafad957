"""Models to train: loaded, given an adapter, and saved as folders that are whole or not there."""

from __future__ import annotations

import inspect
import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tircli.records import InputError, MissingExtra

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
try:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as transformers_logging
except ImportError as _error:
    raise MissingExtra(f"training needs {_error.name}; pip install 'tircli[local]'") from _error

FAILURES = (OSError, ValueError, KeyError, ImportError, RuntimeError)
"""What transformers raises for a folder that is no model."""


def tokenizer(model: str) -> Any:
    """The tokenizer of a model folder or hub name. Raises InputError."""
    _checked(model)
    try:
        return AutoTokenizer.from_pretrained(model)
    except FAILURES as error:
        raise InputError(f"model {model}: its tokenizer does not load: {_line(error)}") from error


def context(model: str) -> int | None:
    """The longest text, in tokens, that a model was made for; None = it does not say."""
    _checked(model)
    try:
        config = AutoConfig.from_pretrained(model)
    except FAILURES as error:
        raise InputError(f"model {model}: its config does not load: {_line(error)}") from error
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def load(model: str, *, dtype: str = "float32", attention: str | None = None) -> Any:
    """The network of a model folder or hub name, on the CPU. Raises InputError."""
    _checked(model)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    how = {} if attention is None else {"attn_implementation": attention}
    try:
        return AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype), **how)
    except FAILURES as error:
        raise InputError(f"model {model} does not load: {_line(error)}") from error


def _checked(model: str) -> None:
    folder = Path(model)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise InputError(f"model {model}: no config.json in it; give a Hugging Face model folder")
    if not folder.is_dir() and (model.count("/") != 1 or model[:1] in ("/", ".", "~")):
        raise InputError(f"model {model}: no such folder; give a model folder or a hub name")


def _line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def with_lora(net: Any, rank: int) -> Any:
    """`net` with an adapter on every linear layer but the output; alpha is twice `rank`."""
    try:
        import peft
    except ImportError:
        raise MissingExtra("--lora needs peft; pip install 'tircli[local]'") from None
    config = peft.LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with _without_old_names():
        return peft.get_peft_model(net, config)


@contextmanager
def _without_old_names() -> Iterator[None]:
    """peft 0.21 asks transformers 5.24 by a deprecated name: no matter of the user's."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".is_gradient_checkpointing. is dep", FutureWarning)
        yield


def checkpoint_activations(net: Any) -> None:
    """Make `net` compute its activations again in the backward pass: less memory, more time."""
    getattr(net, "activation_checkpointing_enable", net.gradient_checkpointing_enable)()


def keeps_logits(net: Any) -> bool:
    """True if the forward pass can give the logits of chosen positions alone."""
    base = net.get_base_model() if hasattr(net, "get_base_model") else net
    return "logits_to_keep" in inspect.signature(type(base).forward).parameters


@torch.no_grad()
def packs(net: Any) -> bool:
    """True if `net` keeps samples in one row apart: what stands before changes nothing."""
    base = net.get_base_model() if hasattr(net, "get_base_model") else net
    if "position_ids" not in inspect.signature(type(base).forward).parameters:
        return False
    size = net.get_input_embeddings().weight.shape[0]
    first, second = (torch.arange(start, start + 6) * 7 % size for start in (1, 9))
    other = (first + 1) % size
    positions = torch.arange(6).repeat(2)[None].to(net.device)
    was_training = net.training
    net.eval()
    logits = [
        net(
            input_ids=torch.cat([before, second])[None].to(net.device),
            position_ids=positions,
            use_cache=False,
        ).logits[0, 6:]
        for before in (first, other)
    ]
    net.train(was_training)
    return bool(torch.equal(*logits))


def settle(part: Path, folder: Path) -> None:
    """Make the whole folder `part` be `folder`, in place of one that was there.

    After a kill `folder` is the old one or the new one, or `settled` restores it.
    """
    for path in part.rglob("*"):
        if path.is_file():
            with open(path, "rb") as stream:
                os.fsync(stream.fileno())
    old = folder.with_name(f".{folder.name}.old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    part.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def settled(folder: Path) -> None:
    """Put back what a kill in the middle of `settle` left aside."""
    old = folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():
        old.rename(folder)


def deliver(model: str, trained: Path, part: Path) -> None:
    """Turn `trained`, as training wrote it, into a model folder as `model` is one.

    An adapter is merged (and kept in `adapter/`); weights get the type that those of `model`
    have. It is made at `part` and takes the place of `trained` when whole.
    """
    base = AutoConfig.from_pretrained(model)
    if (trained / "adapter_config.json").exists():
        import peft

        with _without_old_names():
            net = peft.PeftModel.from_pretrained(load(model), str(trained)).merge_and_unload()
        shutil.copytree(trained, part / "adapter")
    else:
        net = load(str(trained))
    net.config.use_cache = getattr(base, "use_cache", True)  # the Trainer turns it off
    net.to(base.dtype or torch.float32).save_pretrained(part)
    tokenizer(model).save_pretrained(part)
    shutil.copy(trained / "sft.json", part)
    settle(part, trained)
