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
    total = total_latency(latency, mask)[..., None]
    return np.where(mask, latency_share(latency, total), np.nan)


def total_latency(latency_ms: FloatArray, competes: BoolArray) -> FloatArray:
    """(...,) ``Σ_j L_j(q)`` over the arms, on the last axis, that compete for the query."""
    return np.asarray(np.where(competes, latency_ms, 0.0).sum(axis=-1))


def latency_share(latency_ms: FloatArray, total_ms: FloatArray) -> FloatArray:
    """``L / Σ_j L_j`` of an arm, or of a whole plan with its overhead: may then exceed 1.

    Where the sum is 0 everything is equally free: 0. A latency that is NaN stays NaN.
    """
    shares = np.where(np.isnan(latency_ms), np.nan, 0.0)
    return np.divide(latency_ms, total_ms, out=shares, where=total_ms > 0)


def exchange_sentence(lam: float, mean_total_ms: float, measure: str) -> str:
    """Say what λ means: ``at λ = 0.1 a hundredth of nDCG@5 is worth 9 ms``.

    Equation 1 loses λ/ΣL of reward with a millisecond and gains 1−λ with a unit of quality, so .01
    of quality is worth .01·(1−λ)/λ·ΣL milliseconds; ``mean_total_ms`` is the mean of ΣL over
    queries.
    """
    weight = check_lam(lam)
    if weight in (0.0, 1.0):
        nothing = "latency" if weight == 0.0 else "quality"
        return f"at λ = {weight:g} {nothing} counts for nothing"
    worth_ms = 0.01 * (1.0 - weight) / weight * mean_total_ms
    return f"at λ = {weight:g} a hundredth of {measure} is worth {worth_ms:.2g} ms"


def reward(
    quality: FloatArray | float, normalised_latency_share: FloatArray | float, lam: float
) -> FloatArray:
    """``r_i(q) = (1−λ)·s_i(q) + λ·(1 − l_i(q))``, elementwise; NaN where either input is."""
    weight = check_lam(lam)
    share = np.asarray(normalised_latency_share, dtype=np.float64)
    return np.asarray(
        (1.0 - weight) * np.asarray(quality, dtype=np.float64) + weight * (1.0 - share)
    )
