"""Fits :class:`router.list_fusion.ListFusion`: weights of lists, and of a document prior.

Weights lie on a simplex and are found by ascent on mean nDCG@k itself (coordinate ascent: Metzler
and Croft, "Linear feature-based models for information retrieval", Information Retrieval 2007): a
step takes from one weight and gives to another, and steps halve. Deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from arms.records import Ranking
from arms.reward import BoolArray, FloatArray
from router.list_fusion import DocumentPrior, ListFusion, Method, list_values, prior_values
from router.probe_features import key_of

_STEPS = (0.2, 0.1, 0.05, 0.025, 0.0125)
"""Taken from one weight and given to another."""
_SWEEPS = 4
_LEAST_GAIN = 1e-7


@dataclass(frozen=True)
class Found:
    """What A arms found for n queries: C places a query, its documents by name, then padding."""

    arms: tuple[str, ...]
    scores: FloatArray
    """(A, n, depth) of each list, best first, NaN where it is shorter."""
    ranks: NDArray[np.int16]
    """(A, n, C) from 0; −1 where the list lacks the document."""
    keys: NDArray[np.int64]
    """(n, C) of documents; −1 is padding."""
    gains: FloatArray
    """(n, C) share of the query's ideal gain, in [0, 1]."""

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, wanted: NDArray[np.intp]) -> Found:
        """Return what was found for some of the queries, in the order given."""
        return Found(
            self.arms,
            self.scores[:, wanted],
            self.ranks[:, wanted],
            self.keys[wanted],
            self.gains[wanted],
        )

    def columns(self, arms: Sequence[str]) -> list[int]:
        """Return where ``arms`` stand."""
        return [self.arms.index(arm) for arm in arms]

    def present(self, arms: Sequence[str]) -> BoolArray:
        """(n, C) True where one of ``arms`` found the document."""
        return np.asarray((self.ranks[self.columns(arms)] >= 0).any(axis=0))

    def values(self, arms: Sequence[str], method: Method) -> FloatArray:
        """(n, C, len(arms)) what the document counts in each list, see :func:`list_values`."""
        found = np.empty((*self.keys.shape, len(arms)))
        for place, column in enumerate(self.columns(arms)):
            own, absent = list_values(self.scores[column], method)
            ranks = self.ranks[column].astype(np.intp)
            taken = np.take_along_axis(own, np.maximum(ranks, 0), axis=1)
            found[:, :, place] = np.where(ranks >= 0, taken, absent[:, None])
        return found


def found_by(
    rankings: Mapping[str, Sequence[Ranking]],
    grades: Mapping[str, Sequence[Sequence[int]]],
    ideal: FloatArray,
) -> Found:
    """Lay rankings of the same n queries out as arrays.

    Args:
        rankings: arm → n rankings.
        grades: arm → n lists of grades, at least as long as the rankings.
        ideal: (n,) IDCG@k of each query, above 0.
    """
    arms, n = tuple(rankings), len(ideal)
    depth = max((len(one.doc_ids) for ranked in rankings.values() for one in ranked), default=0)
    scores = np.full((len(arms), n, max(depth, 1)), np.nan)
    names = [
        sorted({name for arm in arms for name in rankings[arm][row].doc_ids}) for row in range(n)
    ]
    most = max((len(one) for one in names), default=0)
    ranks = np.full((len(arms), n, max(most, 1)), -1, dtype=np.int16)
    keys = np.full((n, max(most, 1)), -1, dtype=np.int64)
    gains = np.zeros((n, max(most, 1)))
    for row, listed in enumerate(names):
        place_of = {name: place for place, name in enumerate(listed)}
        keys[row, : len(listed)] = [key_of(name) for name in listed]
        for column, arm in enumerate(arms):
            one = rankings[arm][row]
            places = [place_of[name] for name in one.doc_ids]
            scores[column, row, : len(places)] = one.scores
            ranks[column, row, places] = np.arange(len(places))
            judged = np.array(grades[arm][row][: len(places)], dtype=np.float64)
            gains[row, places] = np.clip(judged / ideal[row], 0.0, 1.0)
    return Found(arms, scores, ranks, keys, gains)


@dataclass(frozen=True)
class Objective:
    """Mean nDCG@k of n queries as a function of the weights of F columns."""

    values: FloatArray
    """(m, C, F) of the m queries for which a relevant document was found."""
    present: BoolArray
    """(m, C) documents that are ranked."""
    rows: NDArray[np.intp]
    """(p,) the query, among those m, of each relevant document found."""
    places: NDArray[np.intp]
    """(p,) its place among the C."""
    gains: FloatArray
    """(p,)."""
    queries: NDArray[np.intp]
    """(m,) which of the n they are."""
    n: int
    k: int

    @classmethod
    def of(cls, values: FloatArray, present: BoolArray, gains: FloatArray, k: int) -> Objective:
        """Keep what can change the mean: queries that have something relevant to rank."""
        relevant = present & (gains > 0)
        queries = np.flatnonzero(relevant.any(axis=1))
        rows, places = np.nonzero(relevant[queries])
        return cls(
            values[queries],
            present[queries],
            rows,
            places,
            gains[queries[rows], places],
            queries,
            len(values),
            k,
        )

    def of_queries(self, weights: FloatArray) -> FloatArray:
        """(n,) nDCG@k; ties in score go to the document that stands first."""
        scores = np.where(self.present, self.values @ weights, -np.inf)
        beside = scores[self.rows]
        own = scores[self.rows, self.places][:, None]
        before = np.arange(scores.shape[1]) < self.places[:, None]
        ahead = (beside > own).sum(axis=1) + ((beside == own) & before).sum(axis=1)
        gained = np.where(ahead < self.k, self.gains / np.log2(ahead + 2.0), 0.0)
        found = np.zeros(self.n)
        found[self.queries] = np.bincount(self.rows, gained, len(self.queries))
        return found

    def mean(self, weights: FloatArray) -> float:
        """Mean nDCG@k of the n queries; 0 where there is none."""
        return float(self.of_queries(weights).sum() / max(self.n, 1))


def fit_weights(objective: Objective, start: FloatArray | None = None) -> FloatArray:
    """(F,) weights, at least 0, that sum to 1, and of which no small change is better.

    ``start``: (F,) to begin from, not all 0; default: all equal.
    """
    count = objective.values.shape[2]
    best = np.full(count, 1.0) if start is None else start
    best = best / best.sum()
    reached = objective.mean(best)
    for step in _STEPS:
        for _ in range(_SWEEPS):
            before = reached
            for taker, giver in permutations(range(count), 2):
                moved = min(step, best[giver])
                if moved <= 0.0:
                    continue
                tried = best.copy()
                tried[giver] -= moved
                tried[taker] += moved
                mean = objective.mean(tried)
                if mean > reached + _LEAST_GAIN:
                    best, reached = tried, mean
            if reached <= before + _LEAST_GAIN:
                break
    return best


def count_relevant(found: Found) -> DocumentPrior:
    """Count for each document the queries of ``found`` to which it is relevant."""
    documents, counts = np.unique(found.keys[found.gains > 0], return_counts=True)
    return DocumentPrior(documents.astype(np.int64), counts.astype(np.int64))


def prior_column(
    prior: DocumentPrior, found: Found, groups: NDArray[np.intp] | None = None
) -> FloatArray:
    """(n, C) :func:`router.list_fusion.prior_values` of each document found.

    Args:
        prior: of training queries.
        found: of n queries.
        groups: (n,) where ``found`` is what ``prior`` was counted on: the questions of a query's
            own group, itself among them, tell nothing.
    """
    counts = np.zeros(found.keys.shape, dtype=np.int64)
    if len(prior.documents):
        place = np.searchsorted(prior.documents, found.keys)
        place = np.minimum(place, len(prior.documents) - 1)
        counts = np.where(prior.documents[place] == found.keys, prior.counts[place], 0)
    if groups is not None:
        rows, places = np.nonzero(found.gains > 0)
        keys, own = np.unique(found.keys[rows, places], return_inverse=True)
        pairs, times = np.unique(own * (groups.max() + 1) + groups[rows], return_counts=True)
        at = np.minimum(np.searchsorted(keys, found.keys), max(len(keys) - 1, 0))
        known = (keys[at] == found.keys) if len(keys) else np.zeros(counts.shape, dtype=bool)
        asked = at * (groups.max() + 1) + groups[:, None]
        near = np.minimum(np.searchsorted(pairs, asked), max(len(pairs) - 1, 0))
        hit = known & (pairs[near] == asked) if len(pairs) else known
        counts = counts - np.where(hit, times[near] if len(times) else 0, 0)
    return prior_values(counts)


@dataclass(frozen=True)
class Examples:
    """What is known of n queries: lists, datasets, and a prior of every document found."""

    found: Found
    datasets: NDArray[np.object_]
    """(n,)."""
    prior: FloatArray | None = None
    """(n, C) of :func:`prior_column`; None: none is read."""

    def objective(
        self, arms: Sequence[str], method: Method, k: int, dataset: str | None = None
    ) -> Objective:
        """Of the queries of ``dataset``, or of all."""
        chosen = np.flatnonzero(self.datasets == dataset) if dataset else np.arange(len(self.found))
        found = self.found.rows(chosen)
        values = found.values(arms, method)
        if self.prior is not None:
            values = np.dstack([values, self.prior[chosen]])
        return Objective.of(values, found.present(arms), found.gains, k)


def fit_fusion(
    arms: Sequence[str],
    train: Examples,
    held_out: Examples,
    k: int,
    methods: Sequence[Method],
    per_dataset: bool | None = None,
    least_queries: int = 30,
) -> ListFusion:
    """Fit weights on ``train``; ``held_out`` chooses the normalisation, and between one set of
    weights and one for each dataset.

    Args:
        arms: whose lists are fused.
        train: training queries.
        held_out: others, that both choices are made on.
        k: of nDCG@k.
        methods: normalisations to be compared; ties go to the earlier.
        per_dataset: None: held-out queries choose, ties to one set for all.
        least_queries: of training that a dataset needs to have weights of its own.
    """
    options = []
    for method in methods:
        weights = fit_weights(train.objective(arms, method, k))
        options.append((held_out.objective(arms, method, k).mean(weights), method, weights))
    reached, method, weights = max(options, key=lambda one: one[0])
    together = ListFusion(tuple(arms), method, weights)
    if per_dataset is False:
        return together
    of_datasets, apart = {}, 0.0
    for dataset in sorted(set(train.datasets.tolist()) | set(held_out.datasets.tolist())):
        own = weights
        if (train.datasets == dataset).sum() >= least_queries:
            own = fit_weights(train.objective(arms, method, k, dataset), weights)
            of_datasets[dataset] = own
        if (held_out.datasets == dataset).any():
            apart += held_out.objective(arms, method, k, dataset).of_queries(own).sum()
    better = apart / max(len(held_out.found), 1) > reached + _LEAST_GAIN
    return replace(together, of_datasets=of_datasets) if per_dataset or better else together
