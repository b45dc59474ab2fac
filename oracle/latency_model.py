"""Latency of queries that weren't timed, from those that were."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
_MOST_BINS = 4
_FEWEST_PER_BIN = 5


def predict_latency_ms(
    lengths: FloatArray, timed_lengths: FloatArray, timed_latency_ms: FloatArray
) -> FloatArray:
    """Return the modelled latency (n,) of queries of ``lengths`` (n,), in characters.

    The timed queries of one arm on one dataset are cut at quantiles of their length into at most
    four bins of at least five; a query has the median latency of the bin its length falls in.
    Without a timed query the result is NaN.
    """
    if len(timed_lengths) == 0:
        return np.full(len(lengths), np.nan)
    n_bins = max(1, min(_MOST_BINS, len(timed_lengths) // _FEWEST_PER_BIN))
    cuts = np.quantile(timed_lengths, np.arange(1, n_bins) / n_bins, method="lower")
    borders = np.unique(cuts[cuts < timed_lengths.max()])  # each a length in its own bin
    bins = np.searchsorted(borders, timed_lengths, side="left")
    medians = np.array(
        [np.median(timed_latency_ms[bins == one]) for one in range(len(borders) + 1)]
    )
    predicted: FloatArray = medians[np.searchsorted(borders, lengths, side="left")]
    return predicted
