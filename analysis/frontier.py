"""Pareto frontier of operating points: low latency, high quality."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def on_frontier(latency_ms: FloatArray, quality: FloatArray) -> BoolArray:
    """(n,) True for points that no other point dominates.

    A point dominates another when it is at most as slow and at least as good, and strictly so in
    one of the two; equal points don't dominate each other, so duplicates stay together. A point
    with NaN is never on the frontier and dominates nothing. O(n log n).
    """
    latency = np.asarray(latency_ms, dtype=np.float64)
    worth = np.asarray(quality, dtype=np.float64)
    kept = np.flatnonzero(~(np.isnan(latency) | np.isnan(worth)))
    result = np.zeros(latency.shape, dtype=bool)
    if not len(kept):
        return result
    order = kept[np.lexsort((-worth[kept], latency[kept]))]
    times, values = latency[order], worth[order]
    starts = np.flatnonzero(np.r_[True, times[1:] != times[:-1]])
    group = np.repeat(np.arange(len(starts)), np.diff(np.r_[starts, len(order)]))
    best_of_group = values[starts]  # sorted by falling quality inside a group of equal latency
    best_before = np.r_[-np.inf, np.maximum.accumulate(best_of_group)[:-1]]
    result[order] = (values == best_of_group[group]) & (values > best_before[group])
    return result
