"""Losses on tensors of micro-batches."""

from __future__ import annotations

from typing import Any

import torch

from tircli.records import Json
from tircli.train.batch import IGNORED


def token_losses(net: Any, inputs: Json, chosen: bool = False) -> Any:
    """-ln p of each trained token of a micro-batch from `collate`: float32, (N,).

    `chosen`: the network can give the logits of `keep` alone.
    """
    labels, keep = inputs["labels"], inputs["keep"]
    how = {key: inputs[key] for key in ("input_ids", "position_ids")} | {"use_cache": False}
    out = net(**how, logits_to_keep=keep) if chosen else net(**how)
    logits = out.logits if chosen else out.logits[:, keep]  # (B, K, V)
    targets = labels[:, keep + 1]  # (B, K)
    trained = targets != IGNORED
    cross_entropy = torch.nn.functional.cross_entropy
    return cross_entropy(logits[trained].float(), targets[trained], reduction="none")
