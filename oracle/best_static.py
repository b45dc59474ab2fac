"""The best static arm, over all datasets and within each: the one rule for it.

It is the arm of P with the highest mean reward, the reward being that by which every policy is
scored: latency as a share of the declared arms' latencies (A's, unless a report says otherwise).
Means are over comparable queries. An arm that one of the datasets lacks can't be the best over all
of them, as its mean would be over other queries. Ties go to the lower mean latency, then to the
earlier arm. A dataset's best arm is found by the same rule among its own queries.

Training picks it on the queries of training and validation; a report also on the test queries
themselves, in hindsight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from oracle.best_arm import Columns, best_columns


@dataclass(frozen=True)
class BestStatic:
    """Columns of arms at one λ, the best first; arms that some queries lack stand behind."""

    overall: Columns
    per_dataset: Mapping[str, Columns]
    """Dataset → the order among its own queries."""

    def choose(self, has: BoolArray) -> Columns:
        """(n,) the best static arm; the next in order where a query's dataset lacks it.

        ``has`` (n, P): the arms that each query's dataset has.
        """
        return first_available(self.overall, has)

    def choose_per_dataset(self, datasets: NDArray[np.object_], has: BoolArray) -> Columns:
        """(n,) the best static arm of each query's dataset; the overall one where it is unknown."""
        chosen = self.choose(has)
        for dataset, order in self.per_dataset.items():
            here = datasets == dataset
            chosen[here] = first_available(order, has[here])
        return chosen


def fit_best_static(
    rewards: FloatArray, latency_ms: FloatArray, datasets: NDArray[np.object_]
) -> BestStatic:
    """Order the arms over all of n comparable queries, and within each dataset.

    Args:
        rewards: (n, P) Equation 1 at one λ, as policies are scored; NaN where a dataset lacks an
            arm.
        latency_ms: (n, P).
        datasets: (n,).
    """
    own = {}
    for dataset in sorted(set(datasets.tolist())):
        here = datasets == dataset
        own[str(dataset)] = static_order(rewards[here], latency_ms[here])
    return BestStatic(static_order(rewards, latency_ms), own)


def static_order(rewards: FloatArray, latency_ms: FloatArray) -> Columns:
    """(P,) columns, the best static arm first.

    Arms that more of the queries have come first, so that one that all have precedes every other.
    Among those that equally many have: by mean reward, then lower mean latency, then order.
    """
    there = np.isfinite(rewards)
    queries = there.sum(axis=0)
    means = _means(rewards, there)
    mean_ms = _means(latency_ms, there)
    order: list[int] = []
    for count in sorted(set(queries.tolist()), reverse=True):
        left = queries == count
        if not count:
            order += np.flatnonzero(left).tolist()
            continue
        while left.any():
            best = int(best_columns(np.where(left, means, np.nan)[None], mean_ms[None])[0])
            order.append(best)
            left[best] = False
    return np.array(order, dtype=np.intp)


def first_available(order: Columns, has: BoolArray) -> Columns:
    """(n,) for each query, the first column of ``order`` whose arm its dataset has."""
    return np.asarray(order[has[:, order].argmax(axis=1)], dtype=np.intp)


def _means(values: FloatArray, there: BoolArray) -> FloatArray:
    """(P,) means where ``there``; NaN for an arm that no query has."""
    total, count = np.where(there, values, 0.0).sum(axis=0), there.sum(axis=0)
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
