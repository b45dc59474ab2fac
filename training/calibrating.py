"""Calibration of a policy on held-out labels: λ ↔ mean latency, P95, quality, share per arm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from arms.errors import LabelsError
from arms.progress import Task
from arms.reward import FloatArray
from router.calibration import CalibratedPoint, Calibration, Measured
from router.policy import Policy, PolicyInputs
from training.fitting import Rows
from training.merged_quality import own_quality, primary
from training.plan_outcomes import PlanOutcomes, plan_outcomes
from training.recorded_runs import RecordedRuns
from training.table import RoutingTable

RESAMPLES = 1000
CONFIDENCE = 0.95
POINTS = 41
EVEN_POINTS = 17
NARROWEST = 1.0 / 1024
"""Between neighbouring λ: closer ones decide alike."""

Realised = Callable[[float], PlanOutcomes]
"""λ → what the policy's plans come to on the held-out queries."""


@dataclass(frozen=True)
class HeldOut:
    """The queries of a calibration, all comparable, over A and over P."""

    split: str
    action: RoutingTable
    every: RoutingTable
    labels_hash: str
    reusable_ms: FloatArray | None = None
    """(Q, P) what arms save by taking the policy's query vectors; None: nothing."""
    runs: RecordedRuns | None = None
    """What the arms found, for policies that look at it."""
    rows: Rows = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    """(Q,) which of the labelled queries these are, where ``runs`` is given."""


def realised_by(
    policy: Policy, held_out: HeldOut, overhead_ms: Mapping[int, float], known: PolicyInputs
) -> Realised:
    """Return what ``policy`` comes to at a λ; ``known`` is about those queries.

    ``overhead_ms``: :meth:`Policy.overhead_key` → milliseconds of deciding.
    """
    action = held_out.action

    def realised(lam: float) -> PlanOutcomes:
        decided = policy.decide(action.texts.tolist(), lam, known)
        own = own_quality(held_out.runs, held_out.rows, decided)
        return plan_outcomes(
            decided.plans,
            held_out.every,
            overhead_ms.get(policy.overhead_key(lam), max(overhead_ms.values())),
            held_out.reusable_ms if policy.embeds_at(lam) else None,
            primary(held_out.runs, own),
        )

    return realised


def calibrate_policy(
    realised: Realised,
    lams: Sequence[float] | None,
    held_out: HeldOut,
    wanted: Sequence[float] = (),
    task: Task | None = None,
    seed: int = 42,
    steps: Sequence[float] = (),
) -> Calibration:
    """Measure a policy over a grid of λ, with percentile bootstrap intervals over queries.

    One set of resamples serves all λ. Queries are drawn without regard to their dataset, so that
    the intervals hold the chance in the mixture too. Reference: Efron & Tibshirani, An
    Introduction to the Bootstrap (1993), chapter 13.

    Args:
        realised: what the policy decides at a λ, looked up in the labels.
        lams: those it was trained for; None where it takes any.
        held_out: the queries that ``realised`` is about.
        wanted: λ that a grid over any λ must hold.
        task: moved on by one for each λ.
        seed: of the resamples.
        steps: of :func:`lam_ranges`.

    Raises:
        LabelsError: there is no held-out query.
    """
    if not len(held_out.every):
        raise LabelsError(
            f"no comparable query lies in the split '{held_out.split}': nothing to calibrate on; "
            "give labels with held-out queries, or another --split"
        )
    found: dict[float, PlanOutcomes] = {}

    def latency_ms(lam: float) -> float:
        if lam not in found:
            found[lam] = realised(lam)
            if task is not None:
                task.advance()
        return float(found[lam].latency_ms.mean())

    if lams is not None:
        grid = sorted(set(lams))
    elif steps:
        grid = sorted({*_even(), *map(float, wanted), *steps})
    else:
        grid = fine_grid(latency_ms, wanted)
    for lam in grid:
        latency_ms(lam)
    draws = _draws(len(held_out.every), seed)
    datasets, counts = np.unique(held_out.every.datasets.astype(str), return_counts=True)
    columns = {arm: held_out.every.arms.index(arm) for arm in held_out.action.arms}
    return Calibration(
        split=held_out.split,
        datasets=dict(zip(datasets.tolist(), counts.tolist(), strict=True)),
        confidence=CONFIDENCE,
        any_lam=lams is None and not steps,
        labels_hash=held_out.labels_hash,
        points=tuple(_point(lam, found[lam], draws, columns) for lam in grid),
    )


def lam_ranges(policy: Policy) -> tuple[float, ...]:
    """Return a λ inside each range where a policy that jumps from one range to the next is alike.

    Empty where it changes little by little: between two λ of such a policy one may interpolate.
    """
    found = policy.overhead_keys()
    return tuple(found.values()) if len(found) > 1 else ()


def _even() -> list[float]:
    return [float(lam) for lam in np.linspace(0.0, 1.0, EVEN_POINTS)]


def fine_grid(
    latency_ms: Callable[[float], float], wanted: Sequence[float] = (), points: int = POINTS
) -> list[float]:
    """λ in [0, 1], ascending: evenly spaced ones, then halves of the greatest steps in latency.

    A policy turns from slow arms to fast ones within a narrow range of λ; evenly spaced λ would
    jump over it. Neighbours are never nearer than ``NARROWEST``. Ties go to the smaller λ.
    """
    grid = sorted({*_even(), *map(float, wanted)})
    while len(grid) < points:
        steps = [
            (abs(latency_ms(b) - latency_ms(a)), -a, (a + b) / 2)
            for a, b in pairwise(grid)
            if b - a >= 2 * NARROWEST
        ]
        greatest = max(steps, default=(0.0, 0.0, 0.0))
        if greatest[0] <= 0.0:
            break
        grid = sorted([*grid, greatest[2]])
    return grid


def bootstrap_mean(values: FloatArray, seed: int = 42) -> Measured:
    """Mean of (n,) values with its percentile interval."""
    drawn = np.array([values[rows].mean() for rows in _draws(len(values), seed)])
    return _measured(values.mean(), drawn)


def _draws(queries: int, seed: int) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, queries, size=queries) for _ in range(RESAMPLES)]


def _point(
    lam: float, outcomes: PlanOutcomes, draws: Sequence[np.ndarray], columns: Mapping[str, int]
) -> CalibratedPoint:
    answered = [(outcomes.answering == column).astype(float) for column in columns.values()]
    means = np.column_stack([outcomes.latency_ms, outcomes.quality, *answered])
    drawn_means = np.array([means[rows].mean(axis=0) for rows in draws])
    drawn_p95 = np.array([np.percentile(outcomes.latency_ms[rows], 95) for rows in draws])
    latency, quality, *shares = (
        _measured(column.mean(), drawn)
        for column, drawn in zip(means.T, drawn_means.T, strict=True)
    )
    return CalibratedPoint(
        lam=float(lam),
        latency_ms=latency,
        latency_p95_ms=_measured(np.percentile(outcomes.latency_ms, 95), drawn_p95),
        quality=quality,
        share=dict(zip(columns, shares, strict=True)),
    )


def _measured(value: float, replicates: FloatArray) -> Measured:
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(replicates, [tail, 1.0 - tail])
    return Measured(float(value), float(low), float(high))
