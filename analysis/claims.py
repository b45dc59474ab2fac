"""The claim, arm by arm: is there a λ at which the router is more accurate and faster?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, Resamples, estimate_means
from analysis.outcomes import Outcome, Scores
from analysis.roles import role_of, static_name


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A router at one λ beside one static arm, on the queries that both have."""

    lam: float
    router_quality: float
    arm_quality: float
    router_latency_ms: float
    arm_latency_ms: float
    quality_gain: Estimate
    """Router minus arm; positive is better."""
    latency_gain_ms: Estimate
    """Arm minus router; positive is faster."""

    @property
    def dominates(self) -> bool:
        """More accurate and faster, in the mean."""
        gains = (self.quality_gain.value or 0.0, self.latency_gain_ms.value or 0.0)
        return min(gains) > 0.0

    @property
    def certain(self) -> bool:
        """Both intervals exclude zero on the router's side."""
        return self.quality_gain.above_zero and self.latency_gain_ms.above_zero

    @property
    def speed_up(self) -> float | None:
        """How many times faster the router is; None where it takes no time at all."""
        return self.arm_latency_ms / self.router_latency_ms if self.router_latency_ms > 0 else None


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer for one router and one static arm."""

    router: str
    arm: str
    point: OperatingPoint | None
    """The λ shown: certain ones first, then the largest gain in quality. None: there is none."""
    lams_dominating: tuple[float, ...]
    lams_certain: tuple[float, ...]
    nearest: OperatingPoint | None
    """Where there is no such λ: the most accurate point that is faster, else the fastest."""


def claims(scores: Scores, resamples: Resamples, confidence: float) -> list[Claim]:
    """Answer for every router and every arm of P. λ is picked on the queries evaluated here."""
    routers = [policy for policy in scores.policies if role_of(policy) == "routed"]
    found: list[Claim] = []
    for router in routers:
        points = _points(scores, router, resamples, confidence)
        found += [_claim(router, arm, points.get(arm, [])) for arm in scores.evaluation.pipelines]
    return found


def _points(
    scores: Scores, router: str, resamples: Resamples, confidence: float
) -> dict[str, list[OperatingPoint]]:
    """Arm → its operating points beside ``router``, by ascending λ."""
    measure = scores.evaluation.primary_measure
    cases = [
        (arm, ours, theirs)
        for arm in scores.evaluation.pipelines
        for lam in scores.lams
        if (ours := scores.get(router, lam)) and (theirs := scores.get(static_name(arm), lam))
    ]
    columns = [
        column
        for _, ours, theirs in cases
        for column in (
            ours.values(measure) - theirs.values(measure),
            theirs.latency_ms - ours.latency_ms,
        )
    ]
    estimates = estimate_means(np.stack(columns, axis=1), resamples, confidence) if cases else []
    points: dict[str, list[OperatingPoint]] = {}
    for i, (arm, ours, theirs) in enumerate(cases):
        quality, latency = estimates[2 * i : 2 * i + 2]
        if quality.n:
            points.setdefault(arm, []).append(_point(ours, theirs, quality, latency))
    return points


def _point(ours: Outcome, theirs: Outcome, quality: Estimate, latency: Estimate) -> OperatingPoint:
    common = ours.evaluated & theirs.evaluated
    measure = ours.evaluation.primary_measure
    return OperatingPoint(
        lam=ours.lam,
        router_quality=float(ours.values(measure)[common].mean()),
        arm_quality=float(theirs.values(measure)[common].mean()),
        router_latency_ms=float(ours.latency_ms[common].mean()),
        arm_latency_ms=float(theirs.latency_ms[common].mean()),
        quality_gain=quality,
        latency_gain_ms=latency,
    )


def _claim(router: str, arm: str, points: list[OperatingPoint]) -> Claim:
    dominating = [point for point in points if point.dominates]
    best = max(
        dominating,
        key=lambda point: (point.certain, point.router_quality, -point.router_latency_ms),
        default=None,
    )
    return Claim(
        router=router,
        arm=arm,
        point=best,
        lams_dominating=tuple(point.lam for point in dominating),
        lams_certain=tuple(point.lam for point in dominating if point.certain),
        nearest=None if best else _nearest(points),
    )


def _nearest(points: list[OperatingPoint]) -> OperatingPoint | None:
    faster = [point for point in points if (point.latency_gain_ms.value or 0.0) > 0.0]
    if faster:
        return max(faster, key=lambda point: point.router_quality)
    return min(points, key=lambda point: point.router_latency_ms, default=None)
