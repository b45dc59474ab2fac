"""The documents at the head of what the probes found, and what each probe tells of them.

Pure functions from rankings to numbers, a row per query and document. Where a number isn't defined
it is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.probe_features import Lists

PROBE_COLUMNS = (
    "rank",
    "score",
    "deviations",
    "behind_first",
    "share_of_first",
    "ahead_of_next",
    "behind_previous",
    "ahead_of_best_other",
    "share_of_best_other",
)
"""Columns of one probe, in order; differences are in standard deviations of the list's scores."""
_COUNTED = (1, 3, 5, 10, 20)
JOINT_COLUMNS = (
    "reciprocal_ranks",
    "discounts",
    "best_rank",
    "mean_rank",
    "second_best_rank",
    *(f"lists_within_{k}" for k in _COUNTED),
    *(
        f"{sum_}_{than}"
        for sum_ in ("reciprocal_ranks", "discounts")
        for than in ("behind_best", "ahead_of_best_other")
    ),
    "candidates",
)
"""Columns of all probes together, in order."""
_FUSION_K = 60
"""Of reciprocal-rank fusion (Cormack et al., SIGIR 2009)."""


@dataclass(frozen=True)
class Candidates:
    """m pairs of a query and a document, by query."""

    rows: NDArray[np.intp]
    """(m,) the query, ascending."""
    documents: NDArray[np.int64]
    """(m,) keys of documents, ascending within a query: :func:`router.probe_features.key_of`."""
    features: FloatArray
    """(m, len(candidate_columns(probes)))."""

    def at(self, documents: NDArray[np.int64]) -> NDArray[np.intp]:
        """(n, k) which candidate each of the queries' (n, k) documents is; −1 where none."""
        places = np.full(documents.shape, -1, dtype=np.intp)
        pairs, columns = np.nonzero(self.documents[:, None] == documents[self.rows])
        places[self.rows[pairs], columns] = pairs
        return places


def candidate_columns(probes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of :attr:`Candidates.features`, in order."""
    return (*(f"{probe}:{name}" for probe in probes for name in PROBE_COLUMNS), *JOINT_COLUMNS)


def candidates(probes: Sequence[str], lists: Mapping[str, Lists], top: int) -> Candidates:
    """Return the first ``top`` documents of every probe's list, each once.

    Args:
        probes: in the order of the columns.
        lists: probe → n rankings, deeper than ``top`` where more is known.
        top: how many documents of each list are candidates.
    """
    heads = np.concatenate([lists[probe].documents[:, :top] for probe in probes], axis=1)
    heads = np.sort(heads, axis=1)
    first = np.ones(heads.shape, dtype=bool)
    first[:, 1:] = heads[:, 1:] != heads[:, :-1]
    rows, places = np.nonzero(first & (heads >= 0))
    documents = heads[rows, places]
    parts, ranks = [], []
    with np.errstate(all="ignore"):
        for probe in probes:
            columns, rank = _of_probe(lists[probe], rows, documents)
            parts.append(columns)
            ranks.append(rank)
        depth = lists[probes[0]].documents.shape[1]
        parts.append(_joint(np.column_stack(ranks), rows, len(heads), depth))
    features = np.hstack(parts)
    features[~np.isfinite(features)] = np.nan
    return Candidates(rows, documents, features)


def _of_probe(
    lists: Lists, rows: NDArray[np.intp], documents: NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """(m, len(PROBE_COLUMNS)), and (m,) ranks from 0, the depth where the list lacks the document.

    A document that isn't in the list is taken to score as low as the list's last.
    """
    scores, depth = lists.scores[rows], lists.documents.shape[1]
    same = lists.documents[rows] == documents[:, None]
    there = same.any(axis=1)
    rank = np.where(there, same.argmax(axis=1), depth)
    known = np.isfinite(scores)
    count = known.sum(axis=1)
    mean = np.where(known, scores, 0.0).sum(axis=1) / count
    deviation = np.sqrt(np.where(known, (scores - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)
    lowest = np.where(known, scores, np.inf).min(axis=1)

    def at(place: NDArray[np.intp]) -> FloatArray:
        inside = there & (place >= 0) & (place < depth)
        found = scores[np.arange(len(rows)), np.clip(place, 0, depth - 1)]
        return np.where(inside, found, np.nan)

    own = at(rank)
    taken, first = np.where(there, own, lowest), scores[:, 0]
    other = np.where(rank == 0, scores[:, 1], first)
    columns = [
        rank,
        own,
        (taken - mean) / deviation,
        (first - taken) / deviation,
        taken / first,
        (own - at(rank + 1)) / deviation,
        (at(rank - 1) - own) / deviation,
        (taken - other) / deviation,
        taken / other,
    ]
    return np.column_stack(columns).astype(np.float64), rank.astype(np.float64)


def _joint(ranks: FloatArray, rows: NDArray[np.intp], n: int, depth: int) -> FloatArray:
    """(m, len(JOINT_COLUMNS)) from (m, probes) ranks."""
    there = ranks < depth
    fused = np.where(there, 1.0 / (_FUSION_K + ranks + 1.0), 0.0).sum(axis=1)
    discounts = np.where(there, 1.0 / np.log2(ranks + 2.0), 0.0).sum(axis=1)
    ordered = np.sort(ranks, axis=1)
    columns = [
        fused,
        discounts,
        ordered[:, 0],
        ranks.mean(axis=1),
        ordered[:, min(1, ranks.shape[1] - 1)],
    ]
    columns += [(ranks < k).sum(axis=1) for k in _COUNTED]
    for sums in (fused, discounts):
        best = np.zeros(n)
        np.maximum.at(best, rows, sums)
        is_best = sums == best[rows]
        second = np.zeros(n)
        np.maximum.at(second, rows[~is_best], sums[~is_best])
        other = np.where(is_best, second[rows], best[rows])
        columns += [sums - best[rows], sums - other]
    columns.append(np.bincount(rows, minlength=n)[rows])
    return np.column_stack(columns).astype(np.float64)
