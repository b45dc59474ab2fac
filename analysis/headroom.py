"""How much of the way from the best static arm to the oracle a policy covers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, interval
from analysis.mean_table import MeanTable
from analysis.outcomes import REWARD, Outcome, Scores
from analysis.roles import (
    BEST_STATIC,
    ORACLE_PIPELINES,
    ORACLE_ROUTER_ARMS,
    role_of,
)

Triple = tuple[Outcome, Outcome, Outcome]

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
    """1 = as good as the oracle, 0 = as the best static arm; value None = undefined.

    Above 1 is a policy that merges what several arms found better than the best of them answers.
    """


def headroom_closed(policy: float, best_static: float, oracle: float) -> float | None:
    """Return the share of the headroom closed, above 1 where the policy passes the oracle.

    None where a mean is unknown, and where oracle and best static coincide: there the oracle is
    less than ``SMALLEST_HEADROOM`` ahead.
    """
    headroom = oracle - best_static
    if not headroom >= SMALLEST_HEADROOM or np.isnan(policy):  # the former also for NaN
        return None
    return (policy - best_static) / headroom


def headrooms(means: MeanTable) -> list[Headroom]:
    """Headroom closed by every router and baseline, for reward and each measure, at every λ."""
    metrics = (REWARD, *means.scores.evaluation.measures)
    triples = [triple for lam in means.scores.lams for triple in _triples(means.scores, lam)]
    means.fill(
        (outcome, metric, means.common(triple))
        for triple in triples
        for outcome in triple
        for metric in metrics
    )
    return [_headroom(means, triple, metric) for triple in triples for metric in metrics]


def _triples(scores: Scores, lam: float) -> list[Triple]:
    """Policy, best static arm and oracle, for every policy that isn't an arm or an oracle."""
    best_static = scores.get(BEST_STATIC, lam)
    if best_static is None:
        return []
    return [
        (outcome, best_static, oracle)
        for outcome in scores.at(lam)
        if outcome.policy != BEST_STATIC and role_of(outcome.policy) not in ("static", "oracle")
        for name in (ORACLE_ROUTER_ARMS, ORACLE_PIPELINES)
        if (oracle := scores.get(name, lam)) is not None
    ]


def _headroom(means: MeanTable, triple: Triple, metric: str) -> Headroom:
    common = means.common(triple)
    policy, best, top = (means.mean(outcome, metric, common) for outcome in triple)
    closed = headroom_closed(policy.value, best.value, top.value)
    headroom = top.replicates - best.replicates
    ratios = np.full(headroom.shape, np.nan)
    gained = policy.replicates - best.replicates
    np.divide(gained, headroom, out=ratios, where=headroom >= SMALLEST_HEADROOM)
    low, high = (None, None) if closed is None else interval(ratios, means.confidence)
    return Headroom(
        policy=triple[0].policy,
        lam=triple[0].lam,
        metric=metric,
        oracle=triple[2].policy,
        policy_mean=policy.value,
        best_static_mean=best.value,
        oracle_mean=top.value,
        closed=Estimate(None if closed is None else float(closed), low, high, common.n),
    )
