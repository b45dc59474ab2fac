"""The router's objective: Equation 3 of RetrievalRouter (arXiv 2608.25625)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def masked_logits(logits: Tensor, competes: Tensor) -> Tensor:
    """(queries, arms) logits with −inf where an arm doesn't compete.

    A row in which no arm competes keeps its logits: its softmax stays finite, and its weight in the
    loss is 0.
    """
    usable = competes | ~competes.any(dim=-1, keepdim=True)
    return logits.masked_fill(~usable, float("-inf"))


def kl_per_query(logits: Tensor, targets: Tensor, competes: Tensor) -> Tensor:
    """(queries,) ``KL(p̃ ‖ π) = Σ_i p̃_i (log p̃_i − log π_i)`` over the competing arms.

    ``logits`` and ``targets`` are (queries, arms) floats, ``competes`` booleans of that shape.
    ``0·log 0 = 0``; an arm that doesn't compete adds nothing and receives a gradient of exactly 0.
    """
    import torch

    log_policy = torch.log_softmax(masked_logits(logits, competes), dim=-1)
    # Replaced before the product: 0 · (−inf) would be NaN, in the value and in its gradient.
    log_policy = log_policy.masked_fill(~competes, 0.0)
    return (torch.xlogy(targets, targets) - targets * log_policy).sum(dim=-1)


def kl_loss(logits: Tensor, targets: Tensor, competes: Tensor, weight: Tensor) -> Tensor:
    """Scalar: the mean of :func:`kl_per_query` over the queries with ``weight`` 1.

    The paper sums over queries; the mean over those that contribute has the same minimum, and keeps
    the learning rate independent of the batch size and of how many queries are left out. A batch
    that is left out whole gives 0, with gradients of exactly 0.
    """
    per_query = kl_per_query(logits, targets, competes).masked_fill(weight == 0, 0.0)
    return (per_query * weight).sum() / weight.sum().clamp(min=1.0)
