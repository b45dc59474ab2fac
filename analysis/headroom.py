"""How much of the way from the best static arm to the oracle a policy covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, FloatArray, Resamples, interval
from analysis.outcomes import REWARD, Outcome, Scores
from analysis.roles import (
    BEST_STATIC,
    ORACLE_PIPELINES,
    ORACLE_ROUTER_ARMS,
    role_of,
)

SMALLEST_HEADROOM = 1e-3
"""Below this distance between oracle and best static, the ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """``(policy − best static) / (oracle − best static)`` on the queries that all three have."""

    policy: str
    lam: float
    metric: str
    oracle: str
    policy_mean: float
    best_static_mean: float
    oracle_mean: float
    closed: Estimate
    """1 = as good as the oracle, 0 = as the best static arm; value None = undefined."""


def headroom_closed(policy: float, best_static: float, oracle: float) -> float | None:
    """Return the share of the headroom closed; None where oracle and best static coincide.

    They coincide when the oracle is less than ``SMALLEST_HEADROOM`` ahead.
    """
    headroom = oracle - best_static
    if not headroom >= SMALLEST_HEADROOM:  # also true for NaN
        return None
    return (policy - best_static) / headroom


def headrooms(scores: Scores, resamples: Resamples, confidence: float) -> list[Headroom]:
    """Headroom closed by every router and baseline, for reward and each measure, at every λ."""
    found: list[Headroom] = []
    for lam in scores.lams:
        found += _at(scores, lam, resamples, confidence)
    return found


def _at(scores: Scores, lam: float, resamples: Resamples, confidence: float) -> list[Headroom]:
    best_static = scores.get(BEST_STATIC, lam)
    if best_static is None:
        return []
    cases: list[tuple[Outcome, str, str, FloatArray]] = []
    for outcome in scores.at(lam):
        if outcome.policy == BEST_STATIC or role_of(outcome.policy) in ("static", "oracle"):
            continue
        for oracle_name in (ORACLE_ROUTER_ARMS, ORACLE_PIPELINES):
            oracle = scores.get(oracle_name, lam)
            for metric in (REWARD, *scores.evaluation.measures) if oracle else ():
                triple = [member.values(metric) for member in (outcome, best_static, oracle)]  # type: ignore[union-attr]
                cases.append((outcome, metric, oracle_name, _on_common_queries(triple)))
    if not cases:
        return []
    replicates = resamples.means(np.concatenate([columns for *_, columns in cases], axis=1))
    return [
        _headroom(outcome, metric, oracle, columns, replicates[:, 3 * i : 3 * i + 3], confidence)
        for i, (outcome, metric, oracle, columns) in enumerate(cases)
    ]


def _on_common_queries(columns: list[FloatArray]) -> FloatArray:
    """(N, 3) with NaN in all three where any is NaN."""
    stacked = np.stack(columns, axis=1)
    return np.where(np.isfinite(stacked).all(axis=1, keepdims=True), stacked, np.nan)


def _headroom(
    outcome: Outcome,
    metric: str,
    oracle: str,
    columns: FloatArray,
    replicates: FloatArray,
    confidence: float,
) -> Headroom:
    common = columns[np.isfinite(columns[:, 0])]
    policy, best, top = common.mean(axis=0) if len(common) else (np.nan, np.nan, np.nan)
    closed = headroom_closed(policy, best, top)
    headroom = replicates[:, 2] - replicates[:, 1]
    defined = headroom >= SMALLEST_HEADROOM
    ratios = np.full(headroom.shape, np.nan)
    np.divide(replicates[:, 0] - replicates[:, 1], headroom, out=ratios, where=defined)
    low, high = (None, None) if closed is None else interval(ratios, confidence)
    return Headroom(
        policy=outcome.policy,
        lam=outcome.lam,
        metric=metric,
        oracle=oracle,
        policy_mean=float(policy),
        best_static_mean=float(best),
        oracle_mean=float(top),
        closed=Estimate(None if closed is None else float(closed), low, high, len(common)),
    )
