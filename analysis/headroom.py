"""How much of the way from the best static arm to a policy's ceiling it covers.

The ceiling of a policy that picks an arm is the oracle over arms, that of one that ranks anew is
the ideal order of its candidates: see :mod:`analysis.ceiling`. Both oracles stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, interval
from analysis.ceiling import ceiling_of
from analysis.evaluation import BoolArray
from analysis.mean_table import MeanTable
from analysis.outcomes import REWARD, Outcome, Scores
from analysis.roles import ORACLE_PIPELINES, ORACLE_ROUTER_ARMS, role_of
from router.policy_names import BEST_STATIC

Triple = tuple[Outcome, Outcome, Outcome, bool]
"""Policy, best static arm, ceiling, and whether that is the policy's own."""

SMALLEST_HEADROOM = 1e-3
"""Below this distance between oracle and best static, the ratio says nothing."""


@dataclass(frozen=True, slots=True)
class Headroom:
    """``(policy − best static) / (ceiling − best static)`` on the queries that all three have."""

    policy: str
    lam: float
    metric: str
    ceiling: str
    own: bool
    """Whether this is the policy's own ceiling, which nothing it could do would pass."""
    policy_mean: float
    best_static_mean: float
    ceiling_mean: float
    closed: Estimate
    """1 = as good as the ceiling, 0 = as the best static arm; value None = undefined.

    Against an oracle over arms, a policy that merges what several found may have more than 1.
    """
    closed_macro: float | None
    """The same of means over datasets, each counting once."""


def headroom_closed(policy: float, best_static: float, ceiling: float) -> float | None:
    """Return the share of the headroom closed, above 1 where the policy passes the ceiling.

    None where a mean is unknown, and where ceiling and best static coincide: there the ceiling is
    less than ``SMALLEST_HEADROOM`` ahead.
    """
    headroom = ceiling - best_static
    if not headroom >= SMALLEST_HEADROOM or np.isnan(policy):  # the former also for NaN
        return None
    return (policy - best_static) / headroom


def headrooms(means: MeanTable) -> list[Headroom]:
    """Headroom closed by every router and baseline, for reward and each measure, at every λ."""
    metrics = (REWARD, *means.scores.evaluation.measures)
    triples = [triple for lam in means.scores.lams for triple in _triples(means.scores, lam)]
    means.fill(
        (outcome, metric, means.common(three))
        for *three, _ in triples
        for outcome in three
        for metric in metrics
    )
    return [_headroom(means, triple, metric) for triple in triples for metric in metrics]


def _triples(scores: Scores, lam: float) -> list[Triple]:
    """Policy, best static arm and ceiling, for every policy that isn't an arm or an oracle.

    The ceilings are both oracles, and the policy's own where that is neither.
    """
    best_static = scores.get(BEST_STATIC, lam)
    if best_static is None:
        return []
    oracles = [scores.get(name, lam) for name in (ORACLE_ROUTER_ARMS, ORACLE_PIPELINES)]
    found = []
    for outcome in scores.at(lam):
        if outcome.policy == BEST_STATIC or role_of(outcome.policy) in ("static", "oracle"):
            continue
        own = ceiling_of(scores, outcome)
        others = [one for one in oracles if one is not None and one is not own]
        first = [] if own is None else [own]
        found += [(outcome, best_static, top, top is own) for top in (*first, *others)]
    return found


def own_triples(scores: Scores, lam: float) -> list[tuple[Outcome, Outcome, Outcome]]:
    """Policy, best static arm and the policy's own ceiling, where that is known."""
    return [(policy, best, top) for policy, best, top, own in _triples(scores, lam) if own]


def _headroom(means: MeanTable, triple: Triple, metric: str) -> Headroom:
    outcome, best_static, ceiling, own = triple
    three = (outcome, best_static, ceiling)
    common = means.common(three)
    policy, best, top = (means.mean(one, metric, common) for one in three)
    closed = headroom_closed(policy.value, best.value, top.value)
    macro = headroom_closed(*(macro_mean(one, metric, common.members) for one in three))
    return Headroom(
        policy=outcome.policy,
        lam=outcome.lam,
        metric=metric,
        ceiling=ceiling.policy,
        own=own,
        policy_mean=policy.value,
        best_static_mean=best.value,
        ceiling_mean=top.value,
        closed=Estimate(closed, *closed_interval(means, three, metric, closed), common.n),
        closed_macro=macro,
    )


def closed_interval(
    means: MeanTable, three: tuple[Outcome, Outcome, Outcome], metric: str, closed: float | None
) -> tuple[float | None, float | None]:
    """Interval of ``closed`` by the resamples of ``means``; (None, None) where it is undefined."""
    if closed is None:
        return None, None
    common = means.common(three)
    policy, best, top = (means.mean(one, metric, common).replicates for one in three)
    headroom, gained = top - best, policy - best
    ratios = np.full(headroom.shape, np.nan)
    np.divide(gained, headroom, out=ratios, where=headroom >= SMALLEST_HEADROOM)
    return interval(ratios, means.confidence)


def macro_mean(outcome: Outcome, metric: str, members: BoolArray) -> float:
    """Mean of the datasets' means over ``members`` (N,), each dataset counting once."""
    codes, values = outcome.evaluation.dataset_codes[members], outcome.values(metric)[members]
    if not len(codes):
        return float("nan")
    sums, counts = np.bincount(codes, weights=values), np.bincount(codes)
    return float((sums[counts > 0] / counts[counts > 0]).mean())
