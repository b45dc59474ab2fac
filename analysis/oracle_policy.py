"""The oracle policy: the arm with the highest reward, query by query.

The bound of all policies that answer with an arm's ranking; one that merges what several arms found
may pass it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.evaluation import ArmCodes, Evaluation, FloatArray
from analysis.outcomes import Outcome, picks_of_single_arms, score
from analysis.roles import ORACLE_PIPELINES, ORACLE_ROUTER_ARMS
from arms.reward import latency_share, reward
from oracle.best_arm import best_columns


def arm_rewards(evaluation: Evaluation, lam: float) -> FloatArray:
    """(N, P) reward of each arm, latency normalised over the declared set; NaN where absent."""
    shares = latency_share(evaluation.latency_ms, evaluation.total_latency_ms[:, None])
    return reward(evaluation.quality[evaluation.primary_measure], shares, lam)


def best_arms(evaluation: Evaluation, lam: float, arms: Sequence[str]) -> ArmCodes:
    """(N,) column of the best of ``arms``, by the rule of :mod:`oracle.best_arm`.

    −1 where the query's dataset has none of them.
    """
    columns = np.sort(evaluation.columns_of(arms))
    if not len(columns) or not len(evaluation):
        return np.full(len(evaluation), -1, dtype=np.intp)
    rewards = arm_rewards(evaluation, lam)[:, columns]
    best = best_columns(rewards, evaluation.latency_ms[:, columns])
    return np.where(best >= 0, columns[best], -1).astype(np.int16)


def oracle_outcomes(evaluation: Evaluation, lams: Sequence[float]) -> list[Outcome]:
    """The oracle over the router's arms A and over all pipelines P, at every λ, overhead 0."""
    sets = (
        (ORACLE_ROUTER_ARMS, evaluation.router_arms),
        (ORACLE_PIPELINES, evaluation.pipelines),
    )
    return [
        score(
            evaluation,
            name,
            lam,
            picks_of_single_arms(evaluation, best_arms(evaluation, lam, arms)),
        )
        for name, arms in sets
        for lam in lams
    ]
