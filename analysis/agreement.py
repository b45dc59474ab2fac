"""Which arms answer the same queries, and which queries one arm alone answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.evaluation import Evaluation, FloatArray, IntArray

TIE_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Agreement:
    """An arm answers a query when its quality there is above 0."""

    arms: tuple[str, ...]
    agreement: FloatArray
    """(P, P) share of the queries that both arms were run on which both answer, or neither."""
    compared: IntArray
    """(P, P) queries that both arms were run on."""
    n: IntArray
    """(P,) queries each arm was run on."""
    answers: FloatArray
    """(P,) share of them it answers."""
    answers_alone: FloatArray
    """(P,) share of them that it answers and no other arm does."""
    best: FloatArray
    """(P,) share of them where no arm is better, ties included."""
    best_alone: FloatArray
    """(P,) share of them where every other arm is worse."""
    answered_by_none: int
    """Queries that no arm answers."""


def arm_agreement(evaluation: Evaluation) -> Agreement:
    """Count over the evaluation's queries, by the primary measure; shares are NaN where n is 0."""
    quality = evaluation.quality[evaluation.primary_measure]
    present = np.isfinite(quality)
    answered = present & (np.nan_to_num(quality) > 0.0)
    silent = present & ~answered
    both = answered.T.astype(np.float64) @ answered + silent.T.astype(np.float64) @ silent
    compared = present.T.astype(np.float64) @ present
    alone = answered & (answered.sum(axis=1, keepdims=True) == 1)
    top = np.where(present, quality, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    best = present & (np.nan_to_num(quality) >= top - TIE_TOLERANCE)
    only = best & (best.sum(axis=1, keepdims=True) == 1)
    n = present.sum(axis=0)
    return Agreement(
        arms=evaluation.pipelines,
        agreement=_share(both, compared),
        compared=compared.astype(np.intp),
        n=n.astype(np.intp),
        answers=_share(answered.sum(axis=0), n),
        answers_alone=_share(alone.sum(axis=0), n),
        best=_share(best.sum(axis=0), n),
        best_alone=_share(only.sum(axis=0), n),
        answered_by_none=int((~answered.any(axis=1)).sum()),
    )


def _share(part: FloatArray | IntArray, whole: FloatArray | IntArray) -> FloatArray:
    undefined = np.full(np.shape(part), np.nan)
    return np.divide(part, whole, out=undefined, where=np.asarray(whole) > 0)
