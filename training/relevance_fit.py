"""Fits :class:`router.relevance.RelevanceModel`: the gain of every document that probes found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.boosters import Boosters
from router.candidates import Candidates, candidates
from router.probe_features import Lists
from router.query_vectors import QueryVectors
from router.relevance import Past, RelevanceModel, past_columns, relevance_columns
from training.boosting import fit_booster
from training.fitting import Rows, Workshop

_NDCG = re.compile(r"nDCG@(\d+)$")


def fit_relevance(
    shop: Workshop,
    train: Rows,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
    features: FloatArray,
    vectors: QueryVectors,
) -> RelevanceModel | None:
    """Fit on the documents that ``probes`` found for ``train``.

    Every query's own judgements, and those of queries of the same text, are kept out of the past
    that it is trained with.

    Args:
        shop: see there.
        train: rows.
        probes: arms.
        lists: what they found for ``train``.
        features: (n, features) :func:`router.quality_model.model_features` of ``train``.
        vectors: fitted to ``train``.

    Returns:
        None where the labels don't tell how documents were judged, the quality isn't nDCG@k, or no
        probe found anything.
    """
    options, k = shop.settings.probing.relevance, cutoff(shop)
    if k is None or not tells_relevance(shop, probes):
        return None
    asked = candidates(probes, lists, k)
    gains = gains_of(shop, train, probes, lists, asked, k)
    if not len(gains):
        return None
    past = Past.of(asked, gains)
    texts = np.unique(shop.action.text_groups[train].astype(str), return_inverse=True)[1].ravel()
    before = past_columns(past, asked, vectors, shop.embedded[train], texts)
    columns = relevance_columns(asked, probes, features, before)
    weights = dataset_weights(shop.action.datasets[train], options.dataset_weight)[asked.rows]
    text = fit_booster(
        columns, gains, options, shop.settings.seed, "cross_entropy", weights / weights.mean()
    )
    return RelevanceModel(Boosters([text], columns.shape[1]), past, k)


def tells_relevance(shop: Workshop, probes: Sequence[str]) -> bool:
    """Whether a model can be fitted: it is wanted, grades are known, and quality is nDCG@k."""
    if shop.runs is None or cutoff(shop) is None or not shop.settings.probing.relevance.enabled:
        return False
    return all(shop.runs.grades(probe) is not None for probe in probes)


def cutoff(shop: Workshop) -> int | None:
    """Return the k of a quality that is nDCG@k; None of any other."""
    found = None if shop.runs is None else _NDCG.match(shop.runs.measure)
    return int(found[1]) if found else None


def gains_of(
    shop: Workshop,
    rows: Rows,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
    asked: Candidates,
    k: int,
) -> FloatArray:
    """(m,) share of each candidate in its query's ideal gain, in [0, 1].

    An arm without grades tells nothing of its documents.
    """
    assert shop.runs is not None
    ideal = ideal_gain(shop, rows, k)
    gains = np.zeros(len(asked.rows))
    for probe in probes:
        grades = padded_grades(shop.runs.grades(probe), rows, k)
        if grades is None:
            continue
        places = asked.at(lists[probe].documents[:, :k])
        there = places >= 0
        gains[places[there]] = grades[there]
    return np.clip(gains / ideal[asked.rows], 0.0, 1.0)


def ideal_gain(shop: Workshop, rows: Rows, k: int) -> FloatArray:
    """(n,) IDCG@k, from the DCG@k of any arm and its quality; 1 where no arm found any gain."""
    assert shop.runs is not None
    discounts = 1.0 / np.log2(np.arange(k) + 2.0)
    ideal = np.ones(len(rows))
    for column, arm in enumerate(shop.every.arms):
        grades = padded_grades(shop.runs.grades(arm), rows, k)
        if grades is not None:
            gain = (grades * discounts).sum(axis=1)
            quality = shop.every.quality[rows, column]
            known = (gain > 0) & (quality > 0)
            ideal[known] = gain[known] / quality[known]
    return ideal


def padded_grades(grades: list[tuple[int, ...]] | None, rows: Rows, k: int) -> FloatArray | None:
    """(n, k) grades of the first k documents, never below 0, and 0 where there is none."""
    if grades is None:
        return None
    found = np.zeros((len(rows), k))
    for place, row in enumerate(rows.tolist()):
        first = grades[row][:k]
        found[place, : len(first)] = first
    return found.clip(0.0)


def dataset_weights(datasets: NDArray[np.object_], exponent: float) -> FloatArray:
    """(n,) each query's weight: its dataset's number of queries to the power −``exponent``."""
    _, place, counts = np.unique(datasets.astype(str), return_inverse=True, return_counts=True)
    return np.asarray(counts[place.ravel()] ** -exponent)
