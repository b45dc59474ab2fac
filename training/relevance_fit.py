"""Fits :class:`router.relevance.RelevanceModel`: the gain of every document that probes found."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from router.boosters import Boosters
from router.candidates import Candidates, candidates
from router.history import DocumentHistory, Hidden, History, history_of
from router.probe_features import Lists
from router.query_vectors import QueryVectors
from router.relevance import RelevanceModel, fused_columns, leading, list_columns, relevance_columns
from training.boosting import fit_booster, fit_ranker
from training.fitting import FitContext, Rows
from training.start_fusion import fit_fusion

_NDCG = re.compile(r"nDCG@(\d+)$")


@dataclass(frozen=True)
class Seen:
    """What a model is fitted to: the candidates of n training queries."""

    asked: Candidates
    gains: FloatArray
    """(m,) share of each candidate in its query's ideal gain."""
    k: int
    top: int


def fit_relevance(
    context: FitContext,
    train: Rows,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
    of_query: FloatArray,
    vectors: QueryVectors | None,
    top: int | None = None,
) -> RelevanceModel | None:
    """Fit a model of the gain, with history, on the documents that ``probes`` found for ``train``.

    What history a training query is told: see :func:`hidden_from`.

    Args:
        shop: see there.
        train: rows.
        probes: arms.
        lists: what they found for ``train``.
        of_query: (n, features) :func:`router.quality_model.query_columns` of ``train``.
        vectors: fitted to ``train``; None: read no query vectors.
        top: how many documents of each list are candidates; default: the k of nDCG@k.

    Returns:
        None where the labels don't tell how documents were judged, the quality isn't nDCG@k, or no
        probe found anything.
    """
    seen = seen_by(context, train, probes, lists, top)
    if seen is None:
        return None
    unseen_share = context.settings.probing.relevance.unseen_share
    past, history = training_history(context, train, seen, None, vectors, unseen_share)
    columns = relevance_columns(seen.asked, of_query, None, history)
    weights, options = candidate_weights(context, train, seen), context.settings.probing.relevance
    seed = context.settings.seed
    text = fit_booster(columns, seen.gains, options, seed, "cross_entropy", weights)
    return RelevanceModel(Boosters([text], columns.shape[1]), past, seen.k, seen.top)


def fit_ordered(
    context: FitContext,
    train: Rows,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
    of_query: FloatArray,
    vectors: QueryVectors | None,
    top: int,
    with_history: bool,
) -> RelevanceModel | None:
    """Fit models that order what ``probes`` found, without history and, if asked for, with it.

    Both start from a linear fusion of the lists, which stays a part of the order. Arguments and
    returns as for :func:`fit_relevance`.
    """
    seen = seen_by(context, train, probes, lists, top)
    if seen is None:
        return None
    values = list_columns(probes, lists, seen.asked)
    weights = candidate_weights(context, train, seen)
    fusion = fit_fusion(values, seen.gains, seen.asked.rows, weights, seen.k)
    fused = fused_columns(probes, lists, seen.asked, fusion)

    def fit(past: DocumentHistory | None, history: History | None) -> RelevanceModel:
        columns = relevance_columns(seen.asked, of_query, fused, history)
        options, seed = context.settings.merging.trees, context.settings.seed
        counts = np.bincount(seen.asked.rows, minlength=len(train))
        texts = [
            fit_booster(columns, seen.gains, options, seed, "cross_entropy", weights),
            fit_ranker(columns, seen.gains, counts, seen.k, options, seed, weights),
        ]
        boosters = Boosters(texts, columns.shape[1])
        # With history the order leaves the fusion to the trees: it would hold history back.
        share = context.settings.merging.fusion_weight if history is None else 0.0
        model = RelevanceModel(boosters, past, seen.k, seen.top, 0.0, fusion, share)
        return _balanced(model, columns)

    plain = fit(None, None)
    if not with_history:
        return plain
    unseen_share = context.settings.merging.unseen_share
    history = training_history(context, train, seen, fused, vectors, unseen_share)
    return replace(fit(*history), plain=plain)


def seen_by(
    context: FitContext,
    train: Rows,
    probes: Sequence[str],
    lists: Mapping[str, Lists],
    top: int | None = None,
) -> Seen | None:
    """Return the candidates of ``train`` and their gains; None as for :func:`fit_relevance`."""
    k = cutoff(context)
    if k is None or not grades_known(context, probes):
        return None
    top = max(k, top or 0)
    asked = candidates(probes, lists, top)
    gains = gains_of(context, train, probes, lists, asked, k, top)
    return Seen(asked, gains, k, top) if len(gains) else None


def training_history(
    context: FitContext,
    train: Rows,
    seen: Seen,
    fused: FloatArray | None,
    vectors: QueryVectors | None,
    unseen_share: float,
) -> tuple[DocumentHistory, History]:
    """Return what ``train`` tells of documents, and what of that its own queries are told.

    ``fused``: :func:`router.relevance.fused_columns`, where models start from a fusion;
    ``unseen_share``: see :func:`hidden_from`.
    """
    past = DocumentHistory.of(seen.asked, seen.gains)
    embedded = None if vectors is None else context.embedded[train]
    table = context.action
    groups = table.split_groups if table.history_groups is None else table.history_groups
    hidden = hidden_from(
        seen,
        groups[train].astype(str),
        unseen_share,
        context.settings.seed,
    )
    ordered = leading(seen.asked, fused)
    return past, history_of(past, seen.asked, ordered, vectors, embedded, hidden)


def hidden_from(seen: Seen, groups: NDArray[np.str_], share: float, seed: int) -> Hidden:
    """Return which training queries tell each other nothing.

    Every query's own group is hidden from it: that is how near to it a new question's past may
    come. From about ``share`` of the queries all are hidden that share a relevant candidate with
    them too, as though nobody had ever asked about their documents: so the models learn how far to
    trust history that may say nothing of what is wanted.

    Args:
        seen: candidates of the n training queries.
        groups: (n,) that no split parts.
        share: in [0, 1].
        seed: of the choice, which is made group by group.
    """
    names, place = np.unique(groups, return_inverse=True)
    place = place.ravel()
    drawn = [_lot(f"{seed}:{name}") < share for name in names.tolist()]
    unseen = np.array(drawn, dtype=bool)[place]
    relevant = seen.gains > 0
    documents = np.unique(seen.asked.documents[relevant], return_inverse=True)[1].ravel()
    with_query = seen.asked.rows[relevant]
    order = np.argsort(documents, kind="stable")
    starts = np.searchsorted(documents[order], np.arange(documents.max(initial=-1) + 2))
    asked_of = [with_query[order[a:b]] for a, b in pairwise(starts.tolist())]

    def hidden(rows: slice) -> BoolArray:
        found = place[rows, None] == place
        begin, end = np.searchsorted(with_query, [rows.start, rows.stop]).tolist()
        for at in range(begin, end):
            if unseen[with_query[at]]:
                found[with_query[at] - rows.start, asked_of[documents[at]]] = True
        return np.asarray(found)

    return hidden


def _lot(name: str) -> float:
    """In [0, 1), by a hash: the same on every machine and whatever else there is."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:6], "big") / 2.0**48


def candidate_weights(context: FitContext, train: Rows, seen: Seen) -> FloatArray:
    """(m,) of each candidate, 1 in the mean; see :func:`dataset_weights`."""
    exponent = context.settings.probing.relevance.dataset_weight
    weights = dataset_weights(context.action.datasets[train], exponent)[seen.asked.rows]
    return np.asarray(weights / weights.mean())


def _balanced(model: RelevanceModel, columns: FloatArray) -> RelevanceModel:
    """Let both models of an ordered one spread the training candidates alike."""
    predicted = model.booster.predict(columns)
    spread = predicted[:, 1].std()
    log_odds = replace(model, order_weight=0.0).order(predicted)
    return replace(model, order_weight=float(log_odds.std() / spread) if spread > 0 else 0.0)


def tells_relevance(context: FitContext, probes: Sequence[str]) -> bool:
    """Whether a model can be fitted: it is wanted, grades are known, and quality is nDCG@k."""
    if cutoff(context) is None or not context.settings.probing.relevance.enabled:
        return False
    return grades_known(context, probes)


def grades_known(context: FitContext, probes: Sequence[str]) -> bool:
    """Whether the labels have a grade for every document that ``probes`` found."""
    return context.runs is not None and all(
        context.runs.grades(probe) is not None for probe in probes
    )


def cutoff(context: FitContext) -> int | None:
    """Return the k of a quality that is nDCG@k; None of any other."""
    found = None if context.runs is None else _NDCG.match(context.runs.measure)
    return int(found[1]) if found else None


def gains_of(
    context: FitContext,
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
    assert context.runs is not None
    ideal, top = ideal_gain(context, rows, k), max(k, top or 0)
    gains = np.zeros(len(asked.rows))
    for probe in probes:
        grades = padded_grades(context.runs.grades(probe), rows, top)
        if grades is None:
            continue
        places = asked.at(lists[probe].documents[:, :top])
        there = places >= 0
        gains[places[there]] = grades[there]
    return np.clip(gains / ideal[asked.rows], 0.0, 1.0)


def ideal_gain(context: FitContext, rows: Rows, k: int) -> FloatArray:
    """(n,) IDCG@k of the grades judged; 1 where nothing is relevant.

    Labels that don't tell all grades: from the DCG@k of any arm and its quality; 1 where no arm
    found any gain.
    """
    assert context.runs is not None
    discounts = 1.0 / np.log2(np.arange(k) + 2.0)
    ideal = np.ones(len(rows))
    relevant = context.runs.relevant_grades
    if relevant is not None:
        for place, row in enumerate(rows.tolist()):
            best = np.sort(relevant[row])[::-1][:k]
            ideal[place] = best @ discounts[: len(best)] if len(best) else 1.0
        return ideal
    for column, arm in enumerate(context.every.arms):
        grades = padded_grades(context.runs.grades(arm), rows, k)
        if grades is not None:
            gain = (grades * discounts).sum(axis=1)
            quality = context.every.quality[rows, column]
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
