"""Is the quality that a policy expects the quality that comes? Predicted against observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.bootstrap import Estimate, Resamples, estimate_means
from analysis.evaluation import BoolArray
from analysis.outcomes import Outcome

BINS = 10


@dataclass(frozen=True, slots=True)
class CalibrationPoint:
    """Queries for which about the same quality was predicted."""

    policy: str
    lam: float
    group: str
    """The arm chosen, or the bin of predictions."""
    predicted: float
    observed: Estimate


@dataclass(frozen=True, slots=True)
class Calibration:
    """Predictions beside what came, for one policy."""

    per_query: bool
    """True: decisions hold a prediction per query; False: one per arm and λ, from validation."""
    points: tuple[CalibrationPoint, ...]

    def error(self, lam: float) -> float | None:
        """Expected calibration error at ``lam``: mean of |observed − predicted| over queries."""
        own = [one for one in self.points if one.lam == lam and one.observed.value is not None]
        n = sum(one.observed.n for one in own)
        if not n:
            return None
        gaps = [one.observed.n * abs((one.observed.value or 0.0) - one.predicted) for one in own]
        return sum(gaps) / n


Expected = Mapping[tuple[float, str], float]
"""(λ, arm) → quality to expect from it where it is chosen."""


def expected_quality(record: Mapping[str, Any], router: str) -> Expected:
    """Read ``router.json``'s expectations; empty where they are absent or another policy's.

    They come from validation queries, so test queries put them to the proof.
    """
    rows = record.get("expected")
    if not isinstance(rows, list):
        return {}
    return {
        (round(float(row["lam"]), 9), str(row["arm"])): float(row["quality"])
        for row in rows
        if isinstance(row, Mapping)
        and {"lam", "arm", "quality", "policy"} <= set(row)
        and row["policy"] == router
    }


def calibration(
    outcomes: list[Outcome], expected: Expected, resamples: Resamples, confidence: float
) -> Calibration | None:
    """Compare one policy's predictions at every λ; None where nothing was predicted."""
    per_query = any(
        one.predicted_quality is not None and np.isfinite(one.predicted_quality).any()
        for one in outcomes
    )
    points: list[CalibrationPoint] = []
    for outcome in outcomes:
        groups = _bins(outcome) if per_query else _arms(outcome, expected)
        observed = outcome.values(outcome.evaluation.primary_measure)
        for name, predicted, members in groups:
            rows = np.flatnonzero(members & np.isfinite(observed))
            (estimate,) = estimate_means(observed[rows, None], resamples, confidence, rows)
            if estimate.n:
                point = CalibrationPoint(outcome.policy, outcome.lam, name, predicted, estimate)
                points.append(point)
    return Calibration(per_query, tuple(points)) if points else None


def _bins(outcome: Outcome) -> list[tuple[str, float, BoolArray]]:
    """Ten bins of equal size by predicted quality: name, mean prediction, members (N,)."""
    predicted = outcome.predicted_quality
    if predicted is None:
        return []
    known = np.isfinite(predicted) & outcome.evaluated
    if not known.any():
        return []
    edges = np.unique(np.quantile(predicted[known], np.linspace(0, 1, BINS + 1)))
    codes = np.clip(np.searchsorted(edges, predicted, side="right") - 1, 0, max(len(edges) - 2, 0))
    found = []
    for code in np.unique(codes[known]):
        members = known & (codes == code)
        inside = predicted[members]
        found.append((f"{inside.min():.3f} to {inside.max():.3f}", float(inside.mean()), members))
    return found


def _arms(outcome: Outcome, expected: Expected) -> list[tuple[str, float, BoolArray]]:
    """The arms chosen for which a quality was expected at this λ; merged answers are no arm's."""
    alone = outcome.evaluated & ~outcome.merged
    found = []
    for column, arm in enumerate(outcome.evaluation.pipelines):
        prediction = expected.get((round(outcome.lam, 9), arm))
        members = alone & (outcome.answering_arm == column)
        if prediction is not None and members.any():
            found.append((arm, prediction, members))
    return found
