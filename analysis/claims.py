"""The claim, arm by arm: is there a λ at which the router is more accurate and faster?"""

from __future__ import annotations

from dataclasses import dataclass

from analysis.bootstrap import Estimate
from analysis.mean_table import MeanTable
from analysis.outcomes import LATENCY, Outcome
from analysis.roles import role_of
from router.policy_names import static_name


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


def claims(means: MeanTable) -> list[Claim]:
    """Answer for every router and every arm of P. λ is picked on the queries evaluated here."""
    scores = means.scores
    cases = [
        (router, arm, pair)
        for router in scores.policies
        if role_of(router) == "routed"
        for arm in scores.evaluation.pipelines
        for pair in _pairs(means, router, arm)
    ]
    metrics = (scores.evaluation.primary_measure, LATENCY)
    means.fill(
        (outcome, metric, means.common(pair))
        for *_, pair in cases
        for outcome in pair
        for metric in metrics
    )
    points: dict[tuple[str, str], list[OperatingPoint]] = {}
    for router, arm, pair in cases:
        points.setdefault((router, arm), []).append(_point(means, *pair))
    return [
        _claim(router, arm, points.get((router, arm), []))
        for router in scores.policies
        if role_of(router) == "routed"
        for arm in scores.evaluation.pipelines
    ]


def _pairs(means: MeanTable, router: str, arm: str) -> list[tuple[Outcome, Outcome]]:
    """The router and the arm at every λ at which they have a query in common, λ ascending."""
    scores = means.scores
    return [
        (ours, theirs)
        for lam in scores.lams
        if (ours := scores.get(router, lam)) and (theirs := scores.get(static_name(arm), lam))
        if means.common((ours, theirs)).n
    ]


def _point(means: MeanTable, ours: Outcome, theirs: Outcome) -> OperatingPoint:
    common = means.common((ours, theirs))
    measure = ours.evaluation.primary_measure
    return OperatingPoint(
        lam=ours.lam,
        router_quality=means.mean(ours, measure, common).value,
        arm_quality=means.mean(theirs, measure, common).value,
        router_latency_ms=means.mean(ours, LATENCY, common).value,
        arm_latency_ms=means.mean(theirs, LATENCY, common).value,
        quality_gain=means.difference(ours, theirs, measure),
        latency_gain_ms=means.difference(theirs, ours, LATENCY),
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
