"""Reward of an arm for a query: Equation 1 of RetrievalRouter (arXiv 2608.25625).

It lives here because the oracle (``best_arm``), training (targets), serving and analysis all need
it, and ``arms`` is the one package that all of them may import. Arrays are (queries, arms) or
(arms,); ``competes`` marks the arms of the declared set, and an arm outside it gets NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
LatencyNormalisation = Literal["row_sum", "min_max", "log"]
"""Ways to bring latencies into [0, 1]; ``row_sum`` is the paper's, and what every score uses."""


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


def min_max_latency(latency_ms: FloatArray, competes: BoolArray | None = None) -> FloatArray:
    """``(L_i − min_j L_j) / (max_j L_j − min_j L_j)`` over the arms that compete for the query.

    The cheapest arm has 0 and the dearest 1, however far apart they lie. Where all are equal, 0
    throughout.
    """
    latency = np.asarray(latency_ms, dtype=np.float64)
    mask = np.ones(latency.shape, dtype=bool) if competes is None else competes
    lowest = np.where(mask, latency, np.inf).min(axis=-1, keepdims=True, initial=np.inf)
    highest = np.where(mask, latency, -np.inf).max(axis=-1, keepdims=True, initial=-np.inf)
    spread = np.where(highest > lowest, highest - lowest, 0.0)
    above = latency - np.where(np.isfinite(lowest), lowest, 0.0)
    scaled = np.divide(above, spread, out=np.zeros_like(latency), where=spread > 0)
    return np.where(mask, scaled, np.nan)


def log_latency(latency_ms: FloatArray, competes: BoolArray | None = None) -> FloatArray:
    """``log(1 + L_i) / Σ_j log(1 + L_j)``, L in milliseconds: a row sum in which one very slow arm
    doesn't make all the others look free.
    """
    return normalised_latency(np.log1p(np.asarray(latency_ms, dtype=np.float64)), competes)


_NORMALISATIONS: dict[str, Callable[[FloatArray, BoolArray | None], FloatArray]] = {
    "row_sum": normalised_latency,
    "min_max": min_max_latency,
    "log": log_latency,
}


def normalise_latency(
    name: LatencyNormalisation, latency_ms: FloatArray, competes: BoolArray | None = None
) -> FloatArray:
    """Normalise by name; NaN where an arm doesn't compete.

    Raises:
        ValueError: the name is unknown.
    """
    if name not in _NORMALISATIONS:
        known = ", ".join(get_args(LatencyNormalisation))
        raise ValueError(f"latency normalisation must be one of {known}, got '{name}'")
    return _NORMALISATIONS[name](latency_ms, competes)


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
