"""Every policy beside the router, with paired intervals of the difference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, FloatArray, Resamples, estimate_means
from analysis.outcomes import LATENCY, REWARD, Outcome, Scores


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


def compare_policies(
    scores: Scores, router: str, resamples: Resamples, confidence: float
) -> list[Comparison]:
    """Compare every policy with ``router``, at every λ at which both decided something.

    The router is compared with itself too: its row holds its own means and differences of 0.
    """
    found: list[Comparison] = []
    metrics = (REWARD, scores.evaluation.primary_measure, LATENCY)
    for lam in scores.lams:
        base = scores.get(router, lam)
        if base is None:
            continue
        others = scores.at(lam)
        differences = [
            base.values(name) - other.values(name) for other in others for name in metrics
        ]
        estimates = estimate_means(np.stack(differences, axis=1), resamples, confidence)
        for i, other in enumerate(others):
            if estimates[3 * i].n:
                found.append(_comparison(base, other, metrics, estimates[3 * i : 3 * i + 3]))
    return found


def _comparison(
    router: Outcome, policy: Outcome, metrics: tuple[str, str, str], estimates: list[Estimate]
) -> Comparison:
    theirs = [_common_mean(policy, router, name) for name in metrics]
    ours = [_common_mean(router, policy, name) for name in metrics]
    return Comparison(
        policy=policy.policy,
        router=router.policy,
        lam=router.lam,
        n=estimates[0].n,
        reward=theirs[0],
        quality=theirs[1],
        latency_ms=theirs[2],
        router_reward=ours[0],
        router_quality=ours[1],
        router_latency_ms=ours[2],
        reward_difference=estimates[0],
        quality_difference=estimates[1],
        latency_difference_ms=estimates[2],
    )


def _common_mean(of: Outcome, beside: Outcome, metric: str) -> float:
    values: FloatArray = of.values(metric)[of.evaluated & beside.evaluated]
    return float(values.mean())
