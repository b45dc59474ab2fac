"""Hypervolume and area under the frontier of each policy, and how far the router's differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, FloatArray
from analysis.hypervolume import area_under_frontier, hypervolume
from analysis.mean_table import Mean, MeanTable
from analysis.outcomes import LATENCY, Outcome, Scores
from analysis.roles import BEST_STATIC_ON_TEST, role_of

REFERENCE_BEYOND = 1.1
"""The usual margin of a reference point, so that the slowest point covers something too."""

STATIC_ARMS = "all static arms"
WITH_ROUTER = "all static arms and the router"


@dataclass(frozen=True, slots=True)
class FrontierArea:
    """One policy at all its λ, or a set of policies, as one frontier."""

    policy: str
    """A policy, ``STATIC_ARMS`` or ``WITH_ROUTER``."""
    points: int
    n: int
    hypervolume: Estimate
    area: Estimate
    """Value None where some latency is 0, so that it has no logarithm."""
    hypervolume_difference: Estimate | None
    """The router's minus this one's, paired; None for the router itself."""
    area_difference: Estimate | None


@dataclass(frozen=True, slots=True)
class FrontierAreas:
    """Every policy that is evaluated on all queries, so that areas can be compared."""

    areas: tuple[FrontierArea, ...]
    fastest_ms: float
    reference_ms: float
    """``REFERENCE_BEYOND`` times the slowest point's mean latency: where both ranges end."""
    left_out: tuple[str, ...]
    """Policies with missing results."""


Statistic = Callable[[FloatArray, FloatArray], FloatArray]


def frontier_areas(means: MeanTable, router: str) -> FrontierAreas | None:
    """Measure every policy's frontier; None where nothing takes any time.

    The range is fixed by the measured means, not redrawn in resamples: from the fastest operating
    point of all policies but oracles to a tenth beyond the slowest.
    """
    scores = means.scores
    sets, left_out = _point_sets(scores, router)
    everything = [outcome for points in sets.values() for outcome in points]
    common = means.common(everything) if everything else None
    if common is None or router not in sets:
        return None
    measure = scores.evaluation.primary_measure
    means.fill((one, metric, common) for one in everything for metric in (LATENCY, measure))
    points = {
        name: [(means.mean(o, LATENCY, common), means.mean(o, measure, common)) for o in outcomes]
        for name, outcomes in sets.items()
    }
    times = [
        latency.value
        for name, own in points.items()
        if role_of(name) != "oracle"
        for latency, _ in own
    ]
    fastest, slowest = min(times), REFERENCE_BEYOND * max(times)
    if not slowest > fastest:
        return None
    statistics: list[Statistic] = [lambda x, y: hypervolume(x, y, slowest)]
    if fastest > 0:
        statistics.append(lambda x, y: area_under_frontier(x, y, fastest, slowest))
    measured = {name: [_measure(one, own) for one in statistics] for name, own in points.items()}
    areas = []
    for name, own in measured.items():
        estimates = [means.estimate(value, drawn, common.n) for value, drawn in own]
        differences: list[Estimate | None] = [None, None]
        if name != router:
            differences = [
                means.estimate(ours[0] - theirs[0], ours[1] - theirs[1], common.n)
                for ours, theirs in zip(measured[router], own, strict=True)
            ]
        undefined = Estimate(None, None, None, common.n)
        areas.append(
            FrontierArea(
                name,
                len(points[name]),
                common.n,
                estimates[0],
                estimates[1] if len(estimates) > 1 else undefined,
                differences[0],
                differences[1] if len(differences) > 1 else None,
            )
        )
    return FrontierAreas(tuple(areas), fastest, slowest, left_out)


def _point_sets(scores: Scores, router: str) -> tuple[dict[str, list[Outcome]], tuple[str, ...]]:
    """Policy → its outcomes over λ (a static arm's once), complete policies only; and the rest."""
    sets: dict[str, list[Outcome]] = {}
    left_out: list[str] = []
    for policy in scores.policies:
        if policy == BEST_STATIC_ON_TEST:
            continue
        own = [one for lam in scores.lams if (one := scores.get(policy, lam)) is not None]
        if all(one.evaluated.all() for one in own):
            sets[policy] = own[:1] if role_of(policy) == "static" else own
        else:
            left_out.append(policy)
    static = [one for name, own in sets.items() if role_of(name) == "static" for one in own]
    if static:
        sets[STATIC_ARMS] = static
        sets[WITH_ROUTER] = static + sets.get(router, [])
    return sets, tuple(left_out)


def _measure(statistic: Statistic, points: Sequence[tuple[Mean, Mean]]) -> tuple[float, FloatArray]:
    """A statistic of the points as measured, and (B,) in every resample."""
    x = np.array([latency.value for latency, _ in points])
    y = np.array([quality.value for _, quality in points])
    drawn_x = np.stack([latency.replicates for latency, _ in points], axis=1)
    drawn_y = np.stack([quality.replicates for _, quality in points], axis=1)
    return float(statistic(x, y)), statistic(drawn_x, drawn_y)
