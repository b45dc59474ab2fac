"""Paired percentile bootstrap over queries.

One table of resamples serves every policy and measure, so that all intervals of an evaluation are
paired. A resample is held as counts per query: a mean over it is then a matrix product.
Reference: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapter 13.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

_BLOCK_CELLS = 1 << 23
_PRECISE_UP_TO = 20_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """A statistic with its interval; None where it isn't defined."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    """Queries it is taken over."""

    @property
    def above_zero(self) -> bool:
        """True where the whole interval lies above 0."""
        return self.low is not None and self.low > 0.0

    @property
    def below_zero(self) -> bool:
        """True where the whole interval lies below 0."""
        return self.high is not None and self.high < 0.0


class Resamples:
    """``n_resamples`` draws with replacement of ``n_queries`` queries; seeded."""

    def __init__(self, n_queries: int, n_resamples: int, seed: int) -> None:
        self.n_queries = n_queries
        precise = n_queries <= _PRECISE_UP_TO
        self.precision: type[np.floating[Any]] = np.float64 if precise else np.float32
        """Of the sums' terms; single where many queries make up for it."""
        self._block = max(1, _BLOCK_CELLS // max(n_queries, 1))
        generator = np.random.default_rng(seed)
        self._counts = np.zeros(
            (n_resamples, n_queries), dtype=np.uint8
        )  # P(a count > 255) < 1e-500
        for row in self._counts if n_queries else ():
            drawn = generator.integers(0, n_queries, size=n_queries)
            row[:] = np.bincount(drawn, minlength=n_queries)

    def means(self, values: FloatArray, rows: NDArray[np.intp] | None = None) -> FloatArray:
        """Mean of every column in every resample, NaN queries left out.

        Args:
            values: (n_queries, K); NaN where a query doesn't take part.
            rows: the queries that ``values`` is about, where it isn't about all.

        Returns:
            (n_resamples, K); NaN where a resample drew no query that takes part.
        """
        first, column_of = _distinct(values)
        finite = np.isfinite(values[:, first])
        first_mask, mask_of = _distinct(finite)
        drawn = self.sums(finite[:, first_mask].astype(self.precision), rows)[:, mask_of]
        filled = np.where(finite, values[:, first], 0.0)
        sums = self.sums(filled.astype(self.precision), rows)
        means = np.full(sums.shape, np.nan)
        np.divide(sums, drawn, out=means, where=drawn > 0)
        return means[:, column_of]

    def sums(self, columns: NDArray[Any], rows: NDArray[np.intp] | None = None) -> FloatArray:
        """(n_resamples, K) sum of every column of ``columns`` (n_queries, K) in every resample.

        ``columns`` may be about some queries only: then ``rows`` says about which.
        """
        sums = np.empty((len(self._counts), columns.shape[1]))
        for begin in range(0, len(self._counts), self._block):
            counts = self._counts[begin : begin + self._block]
            weights = (counts if rows is None else counts[:, rows]).astype(columns.dtype)
            sums[begin : begin + self._block] = weights @ columns
        return sums


def _distinct(columns: NDArray[Any]) -> tuple[list[int], NDArray[np.intp]]:
    """Where each distinct column first stands, and which of those each column is.

    Many comparisons share a column (the oracle, the best static arm), and most share a mask.
    """
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    column_of = np.empty(columns.shape[1], dtype=np.intp)
    for column in range(columns.shape[1]):
        key = sha256(columns[:, column].tobytes()).digest()
        if key not in numbers:
            numbers[key] = len(first)
            first.append(column)
        column_of[column] = numbers[key]
    return first, column_of


def interval(replicates: FloatArray, confidence: float) -> tuple[float | None, float | None]:
    """Percentile interval of (B,) replicates; (None, None) where over 5 % are undefined."""
    defined = replicates[np.isfinite(replicates)]
    if len(defined) < 0.95 * len(replicates) or not len(defined):
        return None, None
    low, high = np.quantile(defined, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0])
    return float(low), float(high)


def estimate_means(
    values: FloatArray,
    resamples: Resamples,
    confidence: float,
    rows: NDArray[np.intp] | None = None,
) -> list[Estimate]:
    """Estimate the mean of each column of ``values`` (n_queries, K), NaN queries left out.

    ``values`` may be about some queries only: then ``rows`` says about which.

    Give differences as columns to compare two policies on the queries that both have: NaN on
    either side leaves the query out of both.
    """
    if not values.shape[1]:
        return []
    replicates = resamples.means(values, rows)
    taking_part = np.isfinite(values).sum(axis=0)
    sums = np.where(np.isfinite(values), values, 0.0).sum(axis=0)
    estimates = []
    for column, n in enumerate(taking_part):
        low, high = interval(replicates[:, column], confidence)
        value = float(sums[column] / n) if n else None
        estimates.append(Estimate(value, low, high, int(n)))
    return estimates
