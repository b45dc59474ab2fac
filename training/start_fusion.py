"""Fits the linear fusion that merging's models start from: a weight for each arm."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.relevance import behind_best

_STEPS = (2.0, 1.4, 1.15)
_PASSES = 2
_CANDIDATES = 60_000
"""At most that many are looked at for each trial of weights."""


def fit_fusion(
    values: FloatArray,
    gains: FloatArray,
    rows: NDArray[np.intp],
    weights: FloatArray,
    k: int,
) -> tuple[float, ...]:
    """Return weights of linear fusion with a high nDCG@k, on the scale of log odds of the gain.

    Coordinate ascent from equal weights (Metzler and Croft, Information Retrieval 2007): each
    weight in turn is multiplied, divided or left out, with ever smaller steps, while that helps.
    Then all are scaled alike, so that a document's score behind its query's best is the slope of a
    logistic regression of the gain.

    Args:
        values: (m, arms) of the candidates, see :func:`router.relevance.list_columns`.
        gains: (m,) in [0, 1].
        rows: (m,) each candidate's query, ascending.
        weights: (m,) of the candidates, the same for all of a query.
        k: of nDCG@k.
    """
    if not len(rows):
        return (1.0,) * values.shape[1]
    step = -(-len(rows) // _CANDIDATES)
    some = rows % step == 0
    objective = _Objective(gains[some], rows[some], weights[some], k)
    found = np.ones(values.shape[1])
    trial = values[some]
    best = objective.of(trial @ found)
    for factor in _STEPS:
        for _ in range(_PASSES):
            before = best
            for place in range(len(found)):
                for times in (factor, 1.0 / factor, 0.0):
                    other = found.copy()
                    other[place] *= times
                    reached = objective.of(trial @ other) if other.any() else -np.inf
                    if reached > best + 1e-6:
                        best, found = reached, other
            if best == before:
                break
    slope = _slope(behind_best(values @ found, rows), gains, weights)
    return tuple((found * slope).tolist())


class _Objective:
    """Weighted mean nDCG@k of orders of the same candidates, up to a factor."""

    def __init__(
        self, gains: FloatArray, rows: NDArray[np.intp], weights: FloatArray, k: int
    ) -> None:
        self._gains, self._rows, self._k = gains * weights, rows, k
        starts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
        self._first = np.repeat(starts, np.diff(np.append(starts, len(rows))))

    def of(self, scores: FloatArray) -> float:
        order = np.lexsort((-scores, self._rows))
        rank = np.arange(len(order)) - self._first
        head = rank < self._k
        return float((self._gains[order[head]] / np.log2(rank[head] + 2.0)).sum())


def _slope(scores: FloatArray, gains: FloatArray, weights: FloatArray) -> float:
    """Of a logistic regression with intercept; 0 where scores don't speak for gains.

    Newton's method on scaled scores; a step that makes the fit worse is halved.
    """
    scale = float(scores.std()) or 1.0
    columns = np.column_stack([scores / scale, np.ones(len(scores))])
    share = weights / weights.sum()

    def loss(found: FloatArray) -> float:
        logits = columns @ found
        return float(share @ (np.logaddexp(0.0, logits) - gains * logits) + 1e-6 * found @ found)

    found = np.zeros(2)
    for _ in range(30):
        expected = 1.0 / (1.0 + np.exp(-columns @ found))
        slope = columns.T @ (share * (gains - expected)) - 2e-6 * found
        curve = (columns * (share * expected * (1.0 - expected))[:, None]).T @ columns
        step = np.linalg.solve(curve + 2e-6 * np.eye(2), slope)
        while loss(found + step) > loss(found) and np.abs(step).max() > 1e-9:
            step = step / 2.0
        found = found + step
        if np.abs(step).max() < 1e-6:
            break
    return float(max(found[0] / scale, 0.0))
