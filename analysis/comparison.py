"""Every policy beside the router, with paired intervals of the difference."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.bootstrap import Estimate
from analysis.mean_table import MeanTable
from analysis.outcomes import LATENCY, REWARD, Outcome


@dataclass(frozen=True, slots=True)
class Comparison:
    """The router minus one policy, on the queries that both have.

    A positive difference of reward or quality, and a negative one of latency, favours the router.
    """

    policy: str
    router: str
    lam: float
    n: int
    reward: float
    quality: float
    latency_ms: float
    """Means of ``policy`` over the ``n`` common queries."""
    router_reward: float
    router_quality: float
    router_latency_ms: float
    reward_difference: Estimate
    quality_difference: Estimate
    latency_difference_ms: Estimate


def compare_policies(means: MeanTable, router: str) -> list[Comparison]:
    """Compare every policy with ``router``, at every λ at which both decided something.

    The router is compared with itself too: its row holds its own means and differences of 0.
    """
    scores = means.scores
    metrics = (REWARD, scores.evaluation.primary_measure, LATENCY)
    pairs = [
        (base, other)
        for lam in scores.lams
        if (base := scores.get(router, lam)) is not None
        for other in scores.at(lam)
        if means.common((base, other)).n
    ]
    means.fill(
        (outcome, metric, means.common(pair))
        for pair in pairs
        for outcome in pair
        for metric in metrics
    )
    return [_comparison(means, base, other, metrics) for base, other in pairs]


def _comparison(
    means: MeanTable, router: Outcome, policy: Outcome, metrics: tuple[str, str, str]
) -> Comparison:
    common = means.common((router, policy))
    theirs = [means.mean(policy, name, common).value for name in metrics]
    ours = [means.mean(router, name, common).value for name in metrics]
    differences = [means.difference(router, policy, name) for name in metrics]
    return Comparison(
        policy=policy.policy,
        router=router.policy,
        lam=router.lam,
        n=common.n,
        reward=theirs[0],
        quality=theirs[1],
        latency_ms=theirs[2],
        router_reward=ours[0],
        router_quality=ours[1],
        router_latency_ms=ours[2],
        reward_difference=differences[0],
        quality_difference=differences[1],
        latency_difference_ms=differences[2],
    )
