"""What held-out labels promise of a policy at each λ: latency, quality, and which arms answer.

Computed by ``l2r calibrate`` and at the end of ``l2r train``; stored in ``router.json``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """A statistic over held-out queries with its bootstrap interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


@dataclass(frozen=True, slots=True)
class CalibratedPoint:
    """What a policy comes to at one λ."""

    lam: float
    latency_ms: Measured
    """Mean of a query: the arms of its plan, probes included, and the policy's own overhead."""
    latency_p95_ms: Measured
    """95th percentile over queries of the same sum; each arm's latency is a median of repeats."""
    quality: Measured
    """Mean in [0, 1]."""
    share: Mapping[str, Measured]
    """Arm → share of queries that it answers."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """λ ↔ latency, quality and shares of one policy, over one set of held-out queries.

    The means are over the labels' own mixture of datasets: another mixture has other means.
    """

    split: str
    """``val``, ``test``, or ``folds`` (cross-validation, by models that never saw the query)."""
    datasets: Mapping[str, int]
    """Dataset → queries counted: the mixture that the means are over."""
    confidence: float
    any_lam: bool
    """Whether the policy takes λ between the points, and changes little by little there."""
    labels_hash: str
    points: tuple[CalibratedPoint, ...]
    """By λ, ascending; at least one."""

    @property
    def queries(self) -> int:
        """How many queries the means are over."""
        return sum(self.datasets.values())


def calibration_to_json(calibration: Calibration) -> dict[str, Any]:
    """Return the JSON content of one calibration."""
    return asdict(calibration)


def calibration_from_json(content: Mapping[str, Any]) -> Calibration:
    """Read what :func:`calibration_to_json` gave.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: the content is damaged.
    """
    points = tuple(_point(one) for one in content["points"])
    lams = [point.lam for point in points]
    if not points or lams != sorted(set(lams)) or not 0.0 <= lams[0] <= lams[-1] <= 1.0:
        raise ValueError(f"calibrated λ must ascend within [0, 1], got {lams}")
    return Calibration(
        split=str(content["split"]),
        datasets={str(name): int(count) for name, count in content["datasets"].items()},
        confidence=float(content["confidence"]),
        any_lam=bool(content["any_lam"]),
        labels_hash=str(content["labels_hash"]),
        points=points,
    )


def _point(content: Mapping[str, Any]) -> CalibratedPoint:
    return CalibratedPoint(
        lam=float(content["lam"]),
        latency_ms=_measured(content["latency_ms"]),
        latency_p95_ms=_measured(content["latency_p95_ms"]),
        quality=_measured(content["quality"]),
        share={str(arm): _measured(share) for arm, share in content["share"].items()},
    )


def _measured(content: Mapping[str, Any]) -> Measured:
    numbers = [float(content[name]) for name in ("value", "low", "high")]
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"expected finite numbers, got {dict(content)}")
    return Measured(*numbers)


def between(a: CalibratedPoint, b: CalibratedPoint, lam: float) -> CalibratedPoint:
    """Interpolate linearly, intervals included; ``lam`` lies in [a.lam, b.lam]."""
    if lam == a.lam or a.lam == b.lam:
        return a
    weight = (lam - a.lam) / (b.lam - a.lam)
    return CalibratedPoint(
        lam,
        _mix(a.latency_ms, b.latency_ms, weight),
        _mix(a.latency_p95_ms, b.latency_p95_ms, weight),
        _mix(a.quality, b.quality, weight),
        {arm: _mix(a.share[arm], b.share[arm], weight) for arm in a.share},
    )


def promised(points: Sequence[CalibratedPoint], lam: float) -> CalibratedPoint:
    """What is calibrated at ``lam``: a point, or between two; the nearest one beyond the ends."""
    above = next((place for place, point in enumerate(points) if point.lam >= lam), len(points))
    if above == len(points):
        return points[-1]
    return points[0] if above == 0 else between(points[above - 1], points[above], lam)


def _mix(a: Measured, b: Measured, weight: float) -> Measured:
    def mixed(x: float, y: float) -> float:
        return (1.0 - weight) * x + weight * y

    return Measured(mixed(a.value, b.value), mixed(a.low, b.low), mixed(a.high, b.high))
