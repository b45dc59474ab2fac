"""Fits :class:`router.quality_model.QualityModel`: boosted trees, neighbours, their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.boosters import Boosters
from router.domain import unit_rows
from router.frozen_queries import FrozenQueries
from router.policies.quality import QualityPolicy
from router.probe_features import Lists, as_lists
from router.quality_model import QualityModel, model_features, without_pairs
from router.query_vectors import QueryVectors
from router.relevance import RelevanceModel
from training.boosting import fit_booster
from training.fitting import FitContext, Rows
from training.policy_settings import BoostingSettings
from training.relevance_fit import fit_relevance, tells_relevance
from training.table import RoutingTable

_UNCHECKED = (0.5, 0.5)
"""Weights of trees and neighbours where no validation query can tell."""


def fit_quality(
    context: FitContext,
    name: str,
    train: Rows,
    validation: Rows,
    probes: Sequence[str] = (),
    depth: int = 10,
    with_vectors: bool = True,
) -> QualityPolicy | None:
    """Fit on ``train``, weigh on ``validation``; None where there is nothing to read.

    Args:
        shop: see there; ``context.runs`` must hold the probes' rankings.
        name: of the policy.
        train: rows, all of them comparable.
        validation: likewise; may be empty.
        probes: arms of A to be looked at first.
        depth: how many documents of each.
        with_vectors: also read the frozen encoder's query vectors.

    Raises:
        MissingExtraError: LightGBM isn't installed.
    """
    if (with_vectors and not context.embedded.shape[1]) or not len(train):
        return None
    table, options = context.action.rows(train), context.settings.boosting
    relative, mean = relative_quality(table)
    vectors = None
    if with_vectors:
        vectors = fit_vectors(context.embedded[train], relative, table.competes, options)
    lists = lists_of(context, train, probes, depth)
    features = _features(context, train, vectors, probes, lists)
    relevance = None
    if vectors is not None and probes and tells_relevance(context, probes):
        of_query = without_pairs(features, probes)
        relevance = fit_relevance(context, train, probes, lists, of_query, vectors)
    predicted = _foreseen(table, probes, relevance)
    boosters = fit_boosters(features, relative, mean, predicted, options, context.settings.seed)
    model = QualityModel(
        boosters,
        usual=_usual(relative, table.competes),
        weights=np.array(_UNCHECKED),
        latency_ms=_latency_ms(table),
        vectors=vectors,
        relevance=relevance,
    )
    if len(validation):
        model = _weighed(context, model, validation, probes, depth)
    queries = FrozenQueries.of(context.encoder) if with_vectors else None
    return QualityPolicy(name, table.arms, model, queries, probes, depth, context.settings.tau)


def relative_quality(table: RoutingTable) -> tuple[FloatArray, FloatArray]:
    """(Q, A) quality minus the query's mean over competing arms, 0 where masked; (Q,) the mean."""
    there = table.competes
    known = np.where(there, table.quality, 0.0)
    mean = known.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    return np.where(there, known - mean[:, None], 0.0), mean


def _foreseen(
    table: RoutingTable, probes: Sequence[str], relevance: RelevanceModel | None
) -> NDArray[np.bool_]:
    """(Q, A) arms whose quality trees must foresee: none where every list will be looked at."""
    unseen = table.competes & ~np.isin(table.arms, probes)
    if relevance is None or unseen.any():
        return table.competes
    return unseen


def fit_vectors(
    embedded: NDArray[np.float32],
    relative: FloatArray,
    competes: NDArray[np.bool_],
    options: BoostingSettings,
) -> QueryVectors:
    """Principal directions of the training vectors (signs fixed), and the neighbours' table."""
    mean = embedded.mean(axis=0)
    spread = (embedded - mean).astype(np.float64)
    values, directions = np.linalg.eigh(spread.T @ spread)
    kept = directions[:, np.argsort(-values, kind="stable")[: options.components]].T
    largest = np.abs(kept).argmax(axis=1)
    kept = kept * np.sign(kept[np.arange(len(kept)), largest])[:, None]
    return QueryVectors(
        mean=mean.astype(np.float32),
        components=kept.astype(np.float32),
        # Rounded as on disk, so that a loaded policy decides alike.
        neighbours=unit_rows(embedded).astype(np.float16).astype(np.float32),
        relative=relative.astype(np.float32),
        has=np.asarray(competes, dtype=bool),
        k=min(options.neighbours, len(embedded)),
        temperature=options.temperature,
    )


def fit_boosters(
    features: FloatArray,
    relative: FloatArray,
    mean: FloatArray,
    predicted: NDArray[np.bool_],
    options: BoostingSettings,
    seed: int,
) -> Boosters:
    """One model per arm for (n, A) ``relative``, then one for (n,) ``mean``; least squares.

    Each is fitted to the queries where the arm's quality must be ``predicted`` (n, A), the mean to
    all of them. Where there is none, a model of nothing predicts 0.
    """
    texts = []
    told = [*predicted.T, np.full(len(mean), predicted.any())]
    for target, rows in zip([*relative.T, mean], told, strict=True):
        if rows.any():
            texts.append(fit_booster(features[rows], target[rows], options, seed))
        else:
            few = features[:10]
            texts.append(fit_booster(few, np.zeros(len(few)), options, seed))
    return Boosters(texts, features.shape[1])


def _weighed(
    context: FitContext, model: QualityModel, validation: Rows, probes: Sequence[str], depth: int
) -> QualityModel:
    """Set the weights of trees and neighbours by non-negative least squares on validation."""
    from scipy.optimize import nnls

    table = context.action.rows(validation)
    relative, _ = relative_quality(table)
    lists = lists_of(context, validation, probes, depth)
    features = _features(context, validation, model.vectors, probes, lists)
    parts = [model.boosters.predict(features)[:, :-1]]
    if model.vectors is not None:
        parts.append(model.vectors.nearby(context.embedded[validation]))
    there = _foreseen(table, probes, model.relevance)
    if not there.any():
        return model
    columns = np.column_stack([(part - model.usual)[there] for part in parts])
    found, _ = nnls(columns, (relative - model.usual)[there])
    weights = np.zeros(2)
    weights[: len(found)] = found
    return replace(model, weights=weights)


def _features(
    context: FitContext,
    rows: Rows,
    vectors: QueryVectors | None,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
) -> FloatArray:
    components = None if vectors is None else vectors.project(context.embedded[rows])
    return model_features(context.action.texts[rows].tolist(), components, probes, lists)


def lists_of(
    context: FitContext, rows: Rows, probes: Sequence[str], depth: int
) -> dict[str, Lists]:
    """Probe → what it found for ``rows``; nothing where nothing is probed."""
    if not probes or context.runs is None:
        return {}
    found = context.runs.probed(probes, rows, context.every, depth)
    return as_lists(probes, found, depth, len(rows))


def _usual(relative: FloatArray, competes: NDArray[np.bool_]) -> FloatArray:
    count = competes.sum(axis=0)
    return np.asarray(relative.sum(axis=0) / np.maximum(count, 1))


def _latency_ms(table: RoutingTable) -> FloatArray:
    """(A,) mean milliseconds; an arm that no query has costs as much as the dearest."""
    mean = table.mean_latency_ms()
    known = mean[np.isfinite(mean)]
    return np.where(np.isfinite(mean), mean, known.max() if len(known) else 0.0)
