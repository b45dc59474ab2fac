"""LoRA adapters on any Hugging Face encoder, encoder-only or decoder-only."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from arms.errors import SettingsError
from training.settings import LoraSettings

if TYPE_CHECKING:
    from torch.nn import Module

_IN_BLOCK = re.compile(r"(?P<stack>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.\d+\.(?P<layer>.+)")


def projection_pattern(encoder: Module) -> str:
    """Return a pattern that matches the attention and feed-forward projections, and nothing else.

    These are the linear layers inside the encoder's stack of repeated blocks. Embeddings, poolers
    and task heads stand outside it, even where they share a name with a projection (BERT's pooler
    is called ``dense`` like its projections). Matched against whole module names, as peft does.

    Raises:
        SettingsError: the encoder has no repeated blocks with linear layers.
    """
    found = [match for name in _linear_names(encoder) if (match := _IN_BLOCK.fullmatch(name))]
    if not found:
        raise SettingsError(
            f"{type(encoder).__name__} has no stack of blocks with linear layers, so LoRA has "
            "nothing to adapt; choose another encoder or encoder_mode: frozen"
        )
    stacks = Counter(match["stack"] for match in found)
    stack = max(sorted(stacks), key=lambda name: stacks[name])
    layers = sorted({match["layer"] for match in found if match["stack"] == stack})
    return rf"{re.escape(stack)}\.\d+\.(?:{'|'.join(map(re.escape, layers))})"


def _linear_names(encoder: Module) -> list[str]:
    import torch
    from transformers.pytorch_utils import Conv1D

    return [
        name
        for name, module in encoder.named_modules()
        if isinstance(module, (torch.nn.Linear, Conv1D))
    ]


def add_adapters(encoder: Module, settings: LoraSettings) -> Any:
    """Wrap ``encoder`` in a peft model: base weights frozen, adapters trainable.

    The adapters start as the identity, so the wrapped encoder computes what the bare one did.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=projection_pattern(encoder),
        bias="none",
    )
    return get_peft_model(encoder, config)
