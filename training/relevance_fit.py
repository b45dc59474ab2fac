"""Fits :class:`router.relevance.RelevanceModel`: the gain of every document that probes found."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.boosters import Boosters
from router.candidates import Candidates, candidates
from router.probe_features import Lists
from router.query_vectors import QueryVectors
from router.relevance import Past, RelevanceModel, past_columns, relevance_columns
from training.boosting import fit_booster, fit_ranker
from training.fitting import Rows, Workshop

_NDCG = re.compile(r"nDCG@(\d+)$")


def fit_relevance(
    shop: Workshop,
    train: Rows,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
    of_query: FloatArray,
    vectors: QueryVectors | None,
    top: int | None = None,
    ordered: bool = False,
) -> RelevanceModel | None:
    """Fit on the documents that ``probes`` found for ``train``.

    Every query's own judgements, and those of queries of the same text, are kept out of the past
    that it is trained with.

    Args:
        shop: see there.
        train: rows.
        probes: arms.
        lists: what they found for ``train``.
        of_query: (n, features) :func:`router.quality_model.query_columns` of ``train``.
        vectors: fitted to ``train``; None: read no query vectors.
        top: how many documents of each list are candidates; default: the k of nDCG@k.
        ordered: fit a second model that is trained to rank them.

    Returns:
        None where the labels don't tell how documents were judged, the quality isn't nDCG@k, or no
        probe found anything.
    """
    options, k = shop.settings.probing.relevance, cutoff(shop)
    if k is None or not grades_known(shop, probes):
        return None
    top = max(k, top or 0)
    asked = candidates(probes, lists, top)
    gains = gains_of(shop, train, probes, lists, asked, k, top)
    if not len(gains):
        return None
    past = Past.of(asked, gains)
    texts = np.unique(shop.action.text_groups[train].astype(str), return_inverse=True)[1].ravel()
    embedded = None if vectors is None else shop.embedded[train]
    before = past_columns(past, asked, vectors, embedded, texts)
    columns = relevance_columns(asked, of_query, before)
    weights = dataset_weights(shop.action.datasets[train], options.dataset_weight)[asked.rows]
    weights, seed = weights / weights.mean(), shop.settings.seed
    fitted = [fit_booster(columns, gains, options, seed, "cross_entropy", weights)]
    if ordered:
        counts = np.bincount(asked.rows, minlength=len(train))
        fitted.append(fit_ranker(columns, gains, counts, k, options, seed, weights))
    model = RelevanceModel(Boosters(fitted, columns.shape[1]), past, k, top)
    return _balanced(model, columns) if ordered else model


def _balanced(model: RelevanceModel, columns: FloatArray) -> RelevanceModel:
    """Let both models of an ordered one spread the training candidates alike."""
    predicted = model.booster.predict(columns)
    spread = predicted[:, 1].std()
    log_odds = replace(model, order_weight=0.0).order(predicted)
    return replace(model, order_weight=float(log_odds.std() / spread) if spread > 0 else 0.0)


def tells_relevance(shop: Workshop, probes: Sequence[str]) -> bool:
    """Whether a model can be fitted: it is wanted, grades are known, and quality is nDCG@k."""
    if cutoff(shop) is None or not shop.settings.probing.relevance.enabled:
        return False
    return grades_known(shop, probes)


def grades_known(shop: Workshop, probes: Sequence[str]) -> bool:
    """Whether the labels have a grade for every document that ``probes`` found."""
    return shop.runs is not None and all(shop.runs.grades(probe) is not None for probe in probes)


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
    top: int | None = None,
) -> FloatArray:
    """(m,) share of each candidate in its query's ideal gain, in [0, 1].

    An arm without grades tells nothing of its documents. ``top`` (default k) documents of each
    list are candidates.
    """
    assert shop.runs is not None
    ideal, top = ideal_gain(shop, rows, k), max(k, top or 0)
    gains = np.zeros(len(asked.rows))
    for probe in probes:
        grades = padded_grades(shop.runs.grades(probe), rows, top)
        if grades is None:
            continue
        places = asked.at(lists[probe].documents[:, :top])
        there = places >= 0
        gains[places[there]] = grades[there]
    return np.clip(gains / ideal[asked.rows], 0.0, 1.0)


def ideal_gain(shop: Workshop, rows: Rows, k: int) -> FloatArray:
    """(n,) IDCG@k of the grades judged; 1 where nothing is relevant.

    Labels that don't tell all grades: from the DCG@k of any arm and its quality; 1 where no arm
    found any gain.
    """
    assert shop.runs is not None
    discounts = 1.0 / np.log2(np.arange(k) + 2.0)
    ideal = np.ones(len(rows))
    relevant = shop.runs.relevant_grades
    if relevant is not None:
        for place, row in enumerate(rows.tolist()):
            best = np.sort(relevant[row])[::-1][:k]
            ideal[place] = best @ discounts[: len(best)] if len(best) else 1.0
        return ideal
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
