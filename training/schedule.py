"""Learning-rate schedule and weight-decay groups."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.nn import Parameter


def warmup_cosine(step: int, total_steps: int, warmup_share: float) -> float:
    """Factor of the peak learning rate at ``step`` (from 0): linear warm-up, then cosine to 0.

    Warm-up takes ``ceil(warmup_share · total_steps)`` steps and never starts at 0, so that the
    first step already learns.
    """
    warmup_steps = math.ceil(warmup_share * total_steps)
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))


def decay_groups(
    named_parameters: Iterable[tuple[str, Parameter]], weight_decay: float
) -> list[dict[str, Any]]:
    """Split trainable parameters: matrices decay; biases and norms (one-dimensional) don't."""
    trainable = [parameter for _, parameter in named_parameters if parameter.requires_grad]
    matrices = [parameter for parameter in trainable if parameter.ndim > 1]
    vectors = [parameter for parameter in trainable if parameter.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]
