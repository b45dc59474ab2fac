"""Soft targets of the router: Equation 2 of RetrievalRouter (arXiv 2608.25625).

Arrays are (queries, arms). ``competes`` marks the arms that compete for a query; an arm outside it
gets probability exactly 0 and its reward is never read, so it may be NaN.
"""

from __future__ import annotations

import math

import numpy as np

from arms.reward import BoolArray, FloatArray


def soft_targets(rewards: FloatArray, tau: float, competes: BoolArray | None = None) -> FloatArray:
    """``p̃_i(q) = exp(r_i(q)/τ) / Σ_j exp(r_j(q)/τ)`` over the arms that compete.

    A row in which no arm competes is zero throughout.

    Raises:
        ValueError: ``tau`` isn't positive and finite, or a competing arm's reward isn't finite.
    """
    if not (math.isfinite(tau) and tau > 0):
        raise ValueError(f"tau must be a positive number, got {tau}")
    mask = _mask_of(rewards, competes)
    if not np.isfinite(rewards[mask]).all():
        raise ValueError("every competing arm needs a finite reward; mask the others out")
    scaled = np.where(mask, rewards, -np.inf) / tau
    highest = scaled.max(axis=-1, keepdims=True, initial=-np.inf)
    # An all-masked row has no highest entry; 0 in its place keeps exp(-inf) at 0, not NaN.
    weights = np.exp(scaled - np.where(np.isfinite(highest), highest, 0.0))
    total = weights.sum(axis=-1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0)


def gradient_weight(rewards: FloatArray, competes: BoolArray | None = None) -> FloatArray:
    """(queries,) 0 where all rewards of competing arms are zero, else 1.

    The paper's all-zero rule: at λ = 0 a query that every arm fails says nothing about which one to
    choose, and leaves the gradient. Evaluation keeps it. A query without a competing arm gets 0.
    """
    mask = _mask_of(rewards, competes)
    return (np.where(mask, rewards, 0.0) != 0.0).any(axis=-1).astype(np.float64)


def _mask_of(rewards: FloatArray, competes: BoolArray | None) -> BoolArray:
    return np.ones(np.shape(rewards), dtype=bool) if competes is None else competes
