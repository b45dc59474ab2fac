"""Latency of an arm on a query, modelled: one wall-clock sample says little of the next.

Fitted per arm and dataset on training queries; used for targets alone, never for scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from training.table import RoutingTable

_FEWEST_FOR_A_LINE = 10


@dataclass(frozen=True)
class Line:
    """``intercept + slope · length``, held within the latencies seen; all in milliseconds."""

    intercept: float
    slope: float
    lowest: float
    highest: float

    def at(self, lengths: FloatArray) -> FloatArray:
        """(n,) at lengths in characters."""
        return np.clip(self.intercept + self.slope * lengths, self.lowest, self.highest)


def fit_line(lengths: FloatArray, latency_ms: FloatArray, linear: bool) -> Line:
    """Least squares of (n,) latencies on lengths; the median alone where there is no telling.

    That is with fewer than ten queries, or where all have one length, or without ``linear``.
    """
    lowest, highest = float(latency_ms.min()), float(latency_ms.max())
    if not linear or len(lengths) < _FEWEST_FOR_A_LINE or np.ptp(lengths) == 0:
        return Line(float(np.median(latency_ms)), 0.0, lowest, highest)
    slope, intercept = np.polyfit(lengths, latency_ms, 1)
    return Line(float(intercept), float(slope), lowest, highest)


@dataclass(frozen=True)
class LatencyModel:
    """A line per (dataset, arm) that training queries tell of."""

    lines: Mapping[tuple[str, str], Line]

    @classmethod
    def fit(cls, train: RoutingTable, kind: Literal["median", "linear"]) -> LatencyModel:
        """Fit on the rows of ``train`` that have a latency."""
        lengths = _lengths(train)
        lines = {}
        for dataset in sorted(set(train.datasets)):
            for column, arm in enumerate(train.arms):
                measured = np.isfinite(train.latency_ms[:, column])
                rows = (train.datasets == dataset) & measured
                if rows.any():
                    lines[str(dataset), arm] = fit_line(
                        lengths[rows], train.latency_ms[rows, column], kind == "linear"
                    )
        return cls(lines)

    def latency_ms(self, table: RoutingTable) -> NDArray[np.float64]:
        """(Q, arms) modelled; as labelled where no training query tells of dataset and arm."""
        modelled, lengths = table.latency_ms.copy(), _lengths(table)
        for dataset in set(table.datasets):
            rows = table.datasets == dataset
            for column, arm in enumerate(table.arms):
                line = self.lines.get((str(dataset), arm))
                if line is not None:
                    modelled[rows, column] = line.at(lengths[rows])
        return np.where(table.competes, modelled, np.nan)


def _lengths(table: RoutingTable) -> FloatArray:
    return np.array([len(text) for text in table.texts], dtype=np.float64)
