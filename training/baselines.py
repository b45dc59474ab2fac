"""Policies that a trained router must beat; each is fitted without the test queries.

Every function works on rows of a :class:`RoutingTable` and returns columns of its arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from arms.reward import BoolArray, FloatArray
from arms.words import token_pattern
from oracle.best_arm import Columns, best_columns
from training.settings import BaselineSettings
from training.table import RoutingTable

if TYPE_CHECKING:
    from router.policies.tfidf import TfidfHead


def hard_best(table: RoutingTable, lam: float) -> Columns:
    """(Q,) column of the best arm of each query: :func:`oracle.best_arm.best_columns`.

    Rows must be comparable, and each have an arm.
    """
    return best_columns(table.rewards(lam), table.latency_ms)


def same_mix(
    chosen: Columns, competes: BoolArray, seed: int | tuple[int, ...]
) -> tuple[Columns, FloatArray]:
    """Draw arms at random with the frequencies of ``chosen``; return (Q,) columns, probabilities.

    What a router's mix of arms is worth without knowing the query. Where a dataset lacks an arm,
    the mix over the arms it has is scaled up; where it has none of them, its arms are equally
    likely.
    """
    mix = np.bincount(chosen, minlength=competes.shape[1]).astype(np.float64)
    weights = np.where(competes, mix, 0.0)
    nothing = weights.sum(axis=1) == 0
    weights[nothing] = competes[nothing]
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    draws = np.random.default_rng(seed).random(len(competes))[:, None]
    columns = (draws >= probabilities.cumsum(axis=1)).sum(axis=1)
    # Rounding may leave the last cumulative sum a hair below the draw.
    last = competes.shape[1] - 1 - competes[:, ::-1].argmax(axis=1)
    columns = np.minimum(columns, last).astype(np.intp)
    return columns, probabilities[np.arange(len(columns)), columns]


@dataclass(frozen=True)
class TfidfFeatures:
    """A vectoriser fitted on training texts, and those texts as a sparse matrix."""

    vectorizer: Any
    matrix: Any


def tfidf_features(texts: Sequence[str], settings: BaselineSettings) -> TfidfFeatures | None:
    """Fit words and word pairs on the training queries; None where they hold no word at all."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(
        token_pattern=token_pattern(),
        ngram_range=(1, 2),
        sublinear_tf=True,
        max_features=settings.max_features,
    )
    try:
        return TfidfFeatures(vectorizer, vectorizer.fit_transform(list(texts)))
    except ValueError:  # "empty vocabulary"
        return None


def fit_tfidf(
    features: TfidfFeatures,
    train: RoutingTable,
    validation: RoutingTable,
    lam: float,
    settings: BaselineSettings,
) -> TfidfHead:
    """Fit logistic regression on hard labels; of the C given, keep the best validation reward.

    Ties in reward, between values of C, go to the smaller.
    """
    labels = hard_best(train, lam)
    if len(set(labels.tolist())) == 1:
        from router.policies.tfidf import TfidfHead

        return TfidfHead.constant(int(labels[0]), features.matrix.shape[1])
    candidates = [
        _fit_logistic(features.matrix, labels, strength)
        for strength in sorted(set(settings.inverse_regularisation))
    ]
    if len(candidates) == 1 or not len(validation):
        return candidates[0]
    matrix = features.vectorizer.transform(list(validation.texts))
    return max(candidates, key=lambda head: _mean_reward(head, matrix, validation, lam))


def _fit_logistic(matrix: Any, labels: Columns, inverse_regularisation: float) -> TfidfHead:
    from sklearn.linear_model import LogisticRegression

    from router.policies.tfidf import TfidfHead

    classifier = LogisticRegression(C=inverse_regularisation, max_iter=300, tol=1e-3)
    return TfidfHead.of(classifier.fit(matrix, labels))


def _mean_reward(head: TfidfHead, matrix: Any, table: RoutingTable, lam: float) -> float:
    chosen = choose(head.probabilities(matrix, len(table.arms)), table.competes)
    return float(table.rewards(lam)[np.arange(len(table)), chosen].mean())


def choose(probabilities: FloatArray, competes: BoolArray) -> Columns:
    """(Q,) the most probable competing arm; ties to the earlier column."""
    return np.asarray(np.where(competes, probabilities, -1.0).argmax(axis=1), dtype=np.intp)
