"""From token ids to one vector per query: shared by serving and training, gradients included.

Source: RetrievalRouter (arXiv 2608.25625), section 4.2: the mean of the last hidden state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import torch


def pad_tokens(
    token_ids: Sequence[Sequence[int]], pad_id: int, side: Literal["left", "right"]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return ids and mask, both (n, longest) int64; the mask is 1 on real tokens."""
    longest = max(map(len, token_ids))
    ids = torch.full((len(token_ids), longest), pad_id, dtype=torch.int64)
    mask = torch.zeros((len(token_ids), longest), dtype=torch.int64)
    for row, tokens in enumerate(token_ids):
        where = slice(0, len(tokens)) if side == "right" else slice(longest - len(tokens), longest)
        ids[row, where] = torch.as_tensor(tokens, dtype=torch.int64)
        mask[row, where] = 1
    return ids, mask


def mean_pool(hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Mean over real tokens, in float32: hidden (n, t, d) and mask (n, t) give (n, d).

    A row without a real token gives zeros. What stands at padded places never counts, were it NaN.
    """
    real = mask.bool().unsqueeze(-1)
    total = torch.where(real, hidden.float(), 0.0).sum(dim=1)
    return total / real.sum(dim=1).clamp(min=1)


def position_ids(mask: torch.Tensor) -> torch.Tensor:
    """Positions that count real tokens from 0, (n, t) like ``mask``: for padding on the left."""
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


@lru_cache(maxsize=64)
def _parameters(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(forward).parameters)


def parameters_of(model: torch.nn.Module) -> frozenset[str]:
    """Names of the arguments that ``forward`` takes."""
    return _parameters(type(model).forward)


def accepts_positions(model: torch.nn.Module) -> bool:
    """Tell whether ``forward`` takes position ids that start at 0.

    RoBERTa-like models count from their padding index and derive positions from the ids.
    """
    if hasattr(getattr(model, "embeddings", None), "padding_idx"):
        return False
    return "position_ids" in parameters_of(model)


def embed_tokens(
    model: torch.nn.Module, ids: torch.Tensor, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean-pooled last hidden state of ``ids`` (n, t): (n, d) float32.

    ``mask`` is 1 on real tokens, with padding on either side; None means that all are real.
    ``model`` is a transformer of Hugging Face, bare or wrapped by peft.
    """
    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    given: dict[str, Any] = {"input_ids": ids}
    if "use_cache" in parameters_of(base):
        given["use_cache"] = False
    if mask is not None:
        given["attention_mask"] = mask
        if accepts_positions(base) and bool((mask[:, 0] == 0).any()):
            given["position_ids"] = position_ids(mask)
    hidden = model(**given).last_hidden_state
    return hidden.float().mean(dim=1) if mask is None else mean_pool(hidden, mask)
