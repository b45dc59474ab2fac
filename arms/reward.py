"""Reward of an arm for a query: Equation 1 of RetrievalRouter (arXiv 2608.25625).

It lives here because the oracle (``best_arm``), training (targets), serving and analysis all need
it, and ``arms`` is the one package that all of them may import. Arrays are (queries, arms) or
(arms,); ``competes`` marks the arms of the declared set, and an arm outside it gets NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def check_lam(lam: float) -> float:
    """Return ``lam`` as a float; raise ``ValueError`` unless it lies in [0, 1]."""
    value = float(lam)
    if not 0.0 <= value <= 1.0:  # also false for NaN
        raise ValueError(f"lam must lie in [0, 1] (0 = quality only, 1 = latency only), got {lam}")
    return value


def normalised_latency(latency_ms: FloatArray, competes: BoolArray | None = None) -> FloatArray:
    """``l_i(q) = L_i(q) / Σ_j L_j(q)`` over the arms that compete for the query.

    A row whose sum is zero has ``l = 0`` throughout: every arm is equally free.
    """
    latency = np.asarray(latency_ms, dtype=np.float64)
    mask = np.ones(latency.shape, dtype=bool) if competes is None else competes
    total = np.where(mask, latency, 0.0).sum(axis=-1, keepdims=True)
    shares = np.divide(latency, total, out=np.zeros_like(latency), where=total > 0)
    return np.where(mask, shares, np.nan)


def reward(quality: FloatArray, normalised_latency_share: FloatArray, lam: float) -> FloatArray:
    """``r_i(q) = (1−λ)·s_i(q) + λ·(1 − l_i(q))``, elementwise; NaN where either input is."""
    weight = check_lam(lam)
    return (1.0 - weight) * np.asarray(quality, dtype=np.float64) + weight * (
        1.0 - normalised_latency_share
    )
