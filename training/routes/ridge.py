"""Ridge regression of routes on views of a text, its strength picked on left-out predictions.

Few queries: in closed form, through the matrix of their inner products; every query is left out
once, which costs nothing more (Rifkin and Lippert, Notes on Regularized Least Squares, 2007). Many:
strength and temperature so from a sample, since neither depends on how many queries there are (the
strength is the variance of noise, where ridge regression is read as a Gaussian process); then all
by conjugate gradients, which only multiply by the views. Nothing depends on a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray

EXACT_UP_TO = 5_000
"""Queries whose inner products are decomposed, which takes 1 GB at that many."""
_TOLERANCE = 1e-3
"""Of conjugate gradients: residual over right-hand side; decisions are those of the closed form."""
_TEMPERATURES = tuple(2.0**power for power in np.arange(0.0, 6.01, 0.25))


@dataclass(frozen=True)
class RidgeFit:
    """The kept strength and what predictions of left-out queries say of it."""

    dual: FloatArray
    """(Q, R) the weights are the queries' vectors, summed by these."""
    strength: float
    accuracy: float
    """Share of queries whose highest score, made without them, lies on a route they need."""
    temperature: float
    """Scores are multiplied by it before the softmax."""
    judged: NDArray[np.intp]
    """(judged,) rows of the queries that were left out, each in turn."""
    left_out: FloatArray
    """(judged, R) their scores, made without them; before the temperature."""


def solves(queries: int) -> int:
    """How often :func:`fit_ridge` calls ``on_solve``."""
    return 1 if queries <= EXACT_UP_TO else 2


def fit_ridge(
    parts: Sequence[Any],
    needed: BoolArray,
    strengths: Sequence[float],
    on_solve: Callable[[], None] = lambda: None,
) -> RidgeFit:
    """Solve ``(K + strength · I) dual = ±1`` for each strength; keep the best, ties to more.

    ``K`` holds the queries' inner products, 1 added to each for the bias. Best is the accuracy on
    left-out queries. The temperature minimises the negative log-likelihood of the routes they need
    under the softmax of their scores. With more than ``EXACT_UP_TO`` queries, that many, evenly
    spread, are judged.

    Args:
        parts: (Q, columns) each, dense or sparse; side by side they are the queries' vectors.
        needed: (Q, R) the routes that each query needs.
        strengths: of L2, at least one, above 0.
        on_solve: called after each step.
    """
    queries = len(needed)
    sample = np.linspace(0, queries - 1, min(queries, EXACT_UP_TO)).round().astype(np.intp)
    inner = np.ones((len(sample), len(sample)))
    for part in parts:
        chosen = part[sample]
        inner += _dense(chosen @ chosen.T)
    fit = replace(exact_ridge(inner, needed[sample], strengths), judged=sample)
    on_solve()
    if len(sample) == queries:
        return fit
    start = np.zeros(needed.shape)
    start[sample] = fit.dual
    dual = conjugate_gradients(parts, np.where(needed, 1.0, -1.0), fit.strength, start)
    on_solve()
    return replace(fit, dual=dual)


def exact_ridge(inner: FloatArray, needed: BoolArray, strengths: Sequence[float]) -> RidgeFit:
    """Fit from (Q, Q) inner products, leaving out each query in turn."""
    signs = np.where(needed, 1.0, -1.0)
    values, vectors = np.linalg.eigh(inner)
    rotated = vectors.T @ signs
    best: RidgeFit | None = None
    for strength in sorted(set(strengths), reverse=True):
        shrunk = 1.0 / (np.maximum(values, 0.0) + strength)
        dual = vectors @ (shrunk[:, None] * rotated)
        diagonal = (vectors**2) @ shrunk
        left_out = signs - dual / diagonal[:, None]
        accuracy = float(needed[np.arange(len(needed)), left_out.argmax(axis=1)].mean())
        if best is None or accuracy > best.accuracy:
            temperature = _temperature(left_out, needed)
            every = np.arange(len(needed))
            best = RidgeFit(dual, strength, accuracy, temperature, every, left_out)
    if best is None:
        raise ValueError("ridge regression needs at least one strength")
    return best


def inner_products(parts: Sequence[Any], vectors: FloatArray) -> FloatArray:
    """``K @ vectors`` for (Q,) or (Q, R) vectors, ``K`` itself never being made."""
    total = np.broadcast_to(vectors.sum(axis=0), vectors.shape).copy()
    for part in parts:
        total += part @ (part.T @ vectors.astype(part.dtype, copy=False)).astype(part.dtype)
    return total


def conjugate_gradients(
    parts: Sequence[Any], signs: FloatArray, strength: float, start: FloatArray
) -> FloatArray:
    """(Q, R) the solution of ``(K + strength · I) dual = signs``, from ``start`` on."""
    from scipy.sparse.linalg import LinearOperator, cg

    def product(vector: FloatArray) -> FloatArray:
        return inner_products(parts, vector) + strength * vector

    operator = LinearOperator((len(signs), len(signs)), matvec=product, dtype=np.float64)
    # Should it stop early, what it reached is good enough: scores count, not digits.
    columns = [
        cg(operator, right, first, rtol=_TOLERANCE, maxiter=1000)[0]
        for right, first in zip(signs.T, start.T, strict=True)
    ]
    return np.stack(columns, axis=1)


def _temperature(scores: FloatArray, needed: BoolArray) -> float:
    def surprise(factor: float) -> float:
        logits = factor * (scores - scores.max(axis=1, keepdims=True))
        log_total = np.log(np.exp(logits).sum(axis=1))
        log_needed = np.log(np.where(needed, np.exp(logits), 0.0).sum(axis=1) + 1e-300)
        return float((log_total - log_needed).mean())

    return min(_TEMPERATURES, key=surprise)


def _dense(matrix: Any) -> NDArray[np.float64]:
    dense: FloatArray = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return dense
