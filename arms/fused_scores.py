"""Scores of ranked lists brought to one scale, so that they can be added up with weights.

Linear combination of normalised scores: Fox and Shaw (TREC-2, 1994); Bruch, Gai and Ingber,
"An Analysis of Fusion Functions for Hybrid Retrieval" (ACM TOIS 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from arms.records import Ranking

Normalisation = Literal["top_score", "min_max", "z"]
NORMALISATIONS: tuple[Normalisation, ...] = get_args(Normalisation)

FloatArray = NDArray[np.float64]


def normalised_scores(scores: NDArray[np.floating], method: Normalisation) -> FloatArray:
    """Bring each list's scores to one scale, by that list alone.

    - ``top_score``: divided by the list's greatest absolute score, which is its top score wherever
      scores are positive; in [−1, 1].
    - ``min_max``: (score − lowest) / (highest − lowest); in [0, 1].
    - ``z``: (score − mean) / standard deviation (of the population).

    A list whose scores are all the same, one of a single document among them, has nothing to be
    scaled: each of its documents gets 1. An empty list stays empty. Order within a list is kept.

    Args:
        scores: (n, depth), one list a row, in any order, NaN where a list is shorter.
        method: one of ``NORMALISATIONS``.

    Returns:
        (n, depth) float64, NaN where ``scores`` is.

    Raises:
        ValueError: the method isn't known, or ``scores`` has not two dimensions.
    """
    given = np.asarray(scores, dtype=np.float64)
    if given.ndim != 2:
        raise ValueError(f"expected scores of shape (n, depth), got shape {given.shape}")
    lowest, highest = _ends(given)
    shift: FloatArray = np.zeros(len(given))
    if method == "top_score":
        scale = np.maximum(np.abs(lowest), np.abs(highest))
    elif method == "min_max":
        shift, scale = lowest, highest - lowest
    elif method == "z":
        shift, scale = _mean_and_deviation(given)
    else:
        raise ValueError(f"expected one of {', '.join(NORMALISATIONS)}, got '{method}'")
    varied = (highest > lowest) & (scale > 0)
    scaled = (given - shift[:, None]) / np.where(varied, scale, 1.0)[:, None]
    return np.where(varied[:, None] | np.isnan(given), scaled, 1.0)


def missing_values(normalised: FloatArray) -> FloatArray:
    """Return what a document that a list lacks counts there: that list's lowest value.

    A list whose documents all have the same value says only what it found: those it lacks count 0.
    An empty list says nothing: every document counts 0.

    Args:
        normalised: (n, depth) from :func:`normalised_scores`.

    Returns:
        (n,) float64, finite.
    """
    lowest, highest = _ends(normalised)
    return np.where(highest > lowest, lowest, 0.0)


def linear_fusion(
    rankings: Sequence[Ranking], weights: Sequence[float], method: Normalisation, k: int
) -> Ranking:
    """Score each document ``Σ weight · value`` over all rankings and return the best ``k``.

    Its value in a ranking that holds it is the normalised score there; in one that lacks it, see
    :func:`missing_values`. Score descending, document id ascending.

    Args:
        rankings: of one query, one an arm.
        weights: one for each ranking.
        method: see :func:`normalised_scores`.
        k: how many documents to return at most.
    """
    depth = max((len(one.doc_ids) for one in rankings), default=0)
    scores = np.full((len(rankings), depth), np.nan)
    for row, ranking in enumerate(rankings):
        scores[row, : len(ranking.scores)] = ranking.scores
    values = normalised_scores(scores, method)
    absent = missing_values(values)
    names = sorted({doc_id for ranking in rankings for doc_id in ranking.doc_ids})
    position = {doc_id: place for place, doc_id in enumerate(names)}
    fused = np.zeros(len(names))
    for row, (ranking, weight) in enumerate(zip(rankings, weights, strict=True)):
        column = np.full(len(names), absent[row])
        held = [position[doc_id] for doc_id in ranking.doc_ids]
        column[held] = values[row, : len(held)]
        fused += weight * column
    best = np.argsort(-fused, kind="stable")[:k].tolist()  # names are sorted: ties by id
    return Ranking(tuple(names[at] for at in best), tuple(float(fused[at]) for at in best))


def _ends(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Lowest and highest of each row, (n,) each; 0 and 0 for an empty one."""
    absent = np.isnan(scores)
    lowest = np.where(absent, np.inf, scores).min(axis=1, initial=np.inf)
    highest = np.where(absent, -np.inf, scores).max(axis=1, initial=-np.inf)
    held = lowest <= highest
    return np.where(held, lowest, 0.0), np.where(held, highest, 0.0)


def _mean_and_deviation(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    held = ~np.isnan(scores)
    count = np.maximum(held.sum(axis=1), 1)
    mean = np.where(held, scores, 0.0).sum(axis=1) / count
    away = np.where(held, scores - mean[:, None], 0.0)
    return mean, np.sqrt((away**2).sum(axis=1) / count)
