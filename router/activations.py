"""What the feed-forward layers of a frozen encoder respond to in a text, pooled over its tokens.

The units of a transformer's feed-forward layers detect patterns in their input, shallow ones in
lower layers and semantic ones in upper layers (Geva et al., Transformer Feed-Forward Layers Are
Key-Value Memories, 2021). The last hidden state, trained for similarity of meaning, has lost much
of what tells one style of question from another; the units of all layers still have it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from arms.errors import RouterError
from router.adapter import sharing_copy
from router.pooling import embed_tokens, mean_pool, pad_tokens
from router.query_encoder import QueryEncoder, length_buckets

_IN_BLOCK = re.compile(r"(?P<stack>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\.(?P<block>\d+)\..+")
_BATCH_TOKENS = 1024
"""Tokens, padding included, of one forward pass."""


class ActivationEncoder:
    """Mean and maximum, over real tokens, of what enters the last linear layer of each block.

    In BERT and its like, and in decoders too, that layer projects the activations of a block's
    feed-forward units back; only its input is read, so it may be of any width. The encoder is
    shared, and stays as it is. Safe to share between threads.

    Raises:
        RouterError: the encoder has no repeated blocks with linear layers.
    """

    dim: int
    """Length of a text's vector: twice the widths of all blocks."""

    def __init__(self, encoder: QueryEncoder) -> None:
        self._tokens, self._device = encoder.tokens, encoder.device
        self._model = sharing_copy(encoder.model)
        self._seen = threading.local()
        layers = last_layers(self._model)
        for layer in layers:
            layer.register_forward_pre_hook(self._keep)
        self.dim = 2 * sum(_width(layer) for layer in layers)

    def _keep(self, layer: Any, given: tuple[torch.Tensor, ...]) -> None:
        self._seen.inputs.append(given[0])

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dim) means of each block, then maxima; a text without tokens is zeros."""
        token_ids = self._tokens(texts)
        pooled = np.zeros((len(texts), self.dim), dtype=np.float32)
        for rows in length_buckets([len(ids) for ids in token_ids], _BATCH_TOKENS):
            batch = [token_ids[row] for row in rows]
            ids, mask = pad_tokens(batch, self._tokens.pad_id, self._tokens.padding_side)
            pooled[rows] = self._pooled(ids.to(self._device), mask.to(self._device))
        return pooled

    def _pooled(self, ids: torch.Tensor, mask: torch.Tensor) -> NDArray[np.float32]:
        self._seen.inputs = []
        with torch.inference_mode():
            embed_tokens(self._model, ids, mask)
            inputs = [one.reshape(*mask.shape, -1).float() for one in self._seen.inputs]
            hidden = ~mask.bool().unsqueeze(-1)
            means = [mean_pool(one, mask) for one in inputs]
            maxima = [one.masked_fill(hidden, -torch.inf).amax(dim=1) for one in inputs]
            result: NDArray[np.float32] = torch.cat([*means, *maxima], dim=1).cpu().numpy()
        self._seen.inputs = []
        return result


def last_layers(model: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the last linear layer of each block of the model's largest stack, first block first.

    Raises:
        RouterError: there is none.
    """
    found: dict[tuple[str, int], torch.nn.Module] = {}
    for name, module in model.named_modules():
        match = _IN_BLOCK.fullmatch(name)
        if match and _is_linear(module):
            found[match["stack"], int(match["block"])] = module
    if not found:
        raise RouterError(
            f"{type(model).__name__} has no stack of blocks with linear layers, whose activations "
            "the router reads; choose another encoder, or leave it out of 'policies'"
        )
    stacks = Counter(stack for stack, _ in found)
    largest = max(sorted(stacks), key=lambda stack: stacks[stack])
    return [found[key] for key in sorted(found) if key[0] == largest]


def _is_linear(module: torch.nn.Module) -> bool:
    """Whether it is torch's linear layer, or the one of GPT-2, which has its weights turned."""
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"


def _width(layer: Any) -> int:
    if isinstance(layer, torch.nn.Linear):
        return layer.in_features
    return int(layer.weight.shape[0])
