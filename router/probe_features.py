"""What rankings tell of a query before an arm is chosen: pure functions from rankings to numbers.

Of each ranking: its scores, their gaps and spread, and post-retrieval predictors of query
performance. Of each pair of rankings: how far they agree, and how each scores and ranks the
other's first documents. Where a ranking is absent or too short a number is NaN.

Sources: WIG (Zhou and Croft, SIGIR 2007), NQC (Shtok et al., TOIS 2012) and SMV (Tao and Wu, CIKM
2014), all without the collection's own score, which a serving machine doesn't know.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from arms.records import Ranking
from arms.reward import FloatArray

LIST_FEATURES = (
    "found",
    *(f"score_{rank}" for rank in (1, 2, 3, 5, 10)),
    *(f"gap_{gap}" for gap in ("1_2", "2_3", "1_5", "1_10")),
    *(f"ratio_{rank}_1" for rank in (2, 3, 5, 10)),
    "mean",
    "deviation",
    "nqc",
    "wig",
    "wig_deviations",
    "smv",
    "first_deviations",
    "second_deviations",
    "gap_deviations",
    "entropy",
    "first_share",
)
"""Columns of one ranking, in order."""
_TOP = (1, 3, 5, 10)
LEAST_DEPTH = max(_TOP)
"""Documents of a ranking that the columns are about."""
_FIRST = 3
PAIR_FEATURES = (
    "same_first",
    *(f"shared_{k}" for k in _TOP),
    "shared_all",
    "agreement",
    *(f"{side}_{place}_rank" for side in "ab" for place in range(1, _FIRST + 1)),
    *(f"{side}_{place}_behind" for side in "ab" for place in range(1, _FIRST + 1)),
    *(f"{side}_{place}_relative" for side in "ab" for place in range(1, _FIRST + 1)),
    "a_gain_in_b",
    "b_gain_in_a",
)
"""Columns of a pair of rankings, a before b, in order."""


@dataclass(frozen=True)
class Lists:
    """n rankings of one arm, cut or filled up to ``depth`` places."""

    documents: NDArray[np.int64]
    """(n, depth) keys of documents (:func:`key_of`); −1 where none is."""
    scores: FloatArray
    """(n, depth) NaN where no document is."""


def probe_feature_names(arms: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the columns of :func:`probe_features`, in order."""
    own = [f"{arm}:{name}" for arm in arms for name in LIST_FEATURES]
    pairs = [f"{a}|{b}:{name}" for a, b in combinations(arms, 2) for name in PAIR_FEATURES]
    return (*own, *pairs)


def document_name(dataset: str, doc_id: str) -> str:
    """Return what a policy calls a document: two datasets may give one id to different documents.

    Nor may what is known of a document tell of its translation in another dataset.
    """
    return f"{dataset}/{doc_id}"


def key_of(doc_id: str) -> int:
    """Return 63 bits of a hash of the id or name: the same on every machine."""
    digest = hashlib.blake2b(doc_id.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def as_lists(
    arms: Sequence[str], found: Mapping[str, Sequence[Ranking]], depth: int, rows: int
) -> dict[str, Lists]:
    """Arm → its rankings as arrays.

    Args:
        arms: whose rankings.
        found: arm → one ranking per row; an arm that is absent found nothing.
        depth: at least 10; longer rankings are cut.
        rows: how many queries.

    Raises:
        ValueError: ``depth`` is below 10, or an arm hasn't one ranking per row.
    """
    if depth < LEAST_DEPTH:
        raise ValueError(f"probe features need a depth of at least {LEAST_DEPTH}, got {depth}")
    for arm, rankings in found.items():
        if len(rankings) != rows:
            raise ValueError(f"expected {rows} rankings of {arm}, got {len(rankings)}")
    lists = {}
    for arm in arms:
        documents = np.full((rows, depth), -1, dtype=np.int64)
        scores = np.full((rows, depth), np.nan)
        for row, ranking in enumerate(found.get(arm, ())):
            ids = ranking.doc_ids[:depth]
            documents[row, : len(ids)] = [key_of(one) for one in ids]
            scores[row, : len(ids)] = ranking.scores[:depth]
        lists[arm] = Lists(documents, scores)
    return lists


def probe_features(arms: Sequence[str], lists: Mapping[str, Lists]) -> FloatArray:
    """(n, features) of n rankings of each of ``arms``, in the order of the columns.

    Those of single rankings stand first, as :func:`all_list_features` gives them. An arm that found
    nothing has NaN throughout.
    """
    parts = [all_list_features(arms, lists)]
    with np.errstate(divide="ignore", invalid="ignore"):
        spreads = [_spread(lists[arm].scores) for arm in arms]
        for one, other in combinations(range(len(arms)), 2):
            a, b = arms[one], arms[other]
            pair = pair_features(lists[a], lists[b], spreads[one], spreads[other])
            pair[~np.asarray((lists[a].documents[:, 0] >= 0) & (lists[b].documents[:, 0] >= 0))] = (
                np.nan
            )
            parts.append(pair)
    return _finite(np.hstack(parts))


def all_list_features(arms: Sequence[str], lists: Mapping[str, Lists]) -> FloatArray:
    """(n, len(arms) · len(LIST_FEATURES)): each ranking for itself, no pairs."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [list_features(lists[arm], _spread(lists[arm].scores)) for arm in arms]
    return _finite(np.hstack(parts))


def _finite(features: FloatArray) -> FloatArray:
    features[~np.isfinite(features)] = np.nan
    return features


@dataclass(frozen=True)
class _Spread:
    """(n,) of the scores there are: how many, their mean, standard deviation and least."""

    count: FloatArray
    mean: FloatArray
    deviation: FloatArray
    lowest: FloatArray


def _spread(scores: FloatArray) -> _Spread:
    there = np.isfinite(scores)
    count = there.sum(axis=1).astype(np.float64)
    mean = np.where(there, scores, 0.0).sum(axis=1) / count
    squares = np.where(there, (scores - mean[:, None]) ** 2, 0.0).sum(axis=1)
    lowest = np.where(there, scores, np.inf).min(axis=1)
    return _Spread(count, mean, np.sqrt(squares / count), lowest)


def list_features(lists: Lists, spread: _Spread) -> FloatArray:
    """(n, len(LIST_FEATURES)) of one arm's rankings."""
    scores = lists.scores
    first, second, third, fifth, tenth = (scores[:, place] for place in (0, 1, 2, 4, 9))
    mean, deviation = spread.mean, spread.deviation
    top = scores[:, :5]
    there = np.isfinite(top)
    top_count = there.sum(axis=1)
    top_mean = np.where(there, top, 0.0).sum(axis=1) / top_count
    spread_top = np.where(there, top * np.abs(np.log(np.abs(top / mean[:, None]))), 0.0)
    weights = np.exp((scores - first[:, None]) / np.maximum(deviation, 1e-9)[:, None])
    weights = np.where(np.isfinite(scores), weights, 0.0)
    shares = weights / weights.sum(axis=1, keepdims=True)
    entropy = -(shares * np.log(np.maximum(shares, 1e-12))).sum(axis=1)
    return np.column_stack(
        [
            spread.count,
            first,
            second,
            third,
            fifth,
            tenth,
            first - second,
            second - third,
            first - fifth,
            first - tenth,
            second / first,
            third / first,
            fifth / first,
            tenth / first,
            mean,
            deviation,
            deviation / np.abs(mean),
            top_mean - mean,
            (top_mean - mean) / deviation,
            spread_top.sum(axis=1) / top_count,
            (first - mean) / deviation,
            (second - mean) / deviation,
            (first - second) / deviation,
            entropy,
            shares[:, 0],
        ]
    )


def pair_features(a: Lists, b: Lists, spread_a: _Spread, spread_b: _Spread) -> FloatArray:
    """(n, len(PAIR_FEATURES)) of two arms' rankings of the same queries."""
    depth = a.documents.shape[1]
    same = (a.documents[:, :, None] == b.documents[:, None, :]) & (a.documents[:, :, None] >= 0)
    rank_in_b = np.where(same.any(axis=2), same.argmax(axis=2), depth)
    rank_in_a = np.where(same.any(axis=1), same.argmax(axis=1), depth)
    discount = 1.0 / np.log2(np.arange(depth) + 2.0)
    top5 = discount[:5]
    columns = [same[:, 0, 0]]
    columns += [(rank_in_b[:, :k] < k).sum(axis=1) for k in _TOP]
    columns.append((rank_in_b < depth).sum(axis=1))
    in_both = (rank_in_b[:, :10] < depth) / np.log2(rank_in_b[:, :10] + 2.0)
    columns.append((discount[:10] * in_both).sum(axis=1))
    for ranks in (rank_in_b, rank_in_a):
        columns += [ranks[:, place] for place in range(_FIRST)]
    scored = [(rank_in_b, b, spread_b), (rank_in_a, a, spread_a)]
    got = [
        np.where(
            ranks[:, :_FIRST] < depth,
            np.take_along_axis(other.scores, np.minimum(ranks[:, :_FIRST], depth - 1), axis=1),
            spread.lowest[:, None],
        )
        for ranks, other, spread in scored
    ]
    for values, (_, other, spread) in zip(got, scored, strict=True):
        behind = (other.scores[:, :1] - values) / spread.deviation[:, None]
        columns += list(behind.T)
    for values, (_, other, _) in zip(got, scored, strict=True):
        columns += list((values / other.scores[:, :1]).T)
    for ranks in (rank_in_b, rank_in_a):
        gain = (ranks[:, :5] < depth) / np.log2(ranks[:, :5] + 2.0)
        columns.append((top5 * gain).sum(axis=1))
    return np.column_stack(columns).astype(np.float64)
