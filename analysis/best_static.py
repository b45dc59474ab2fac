"""The single arm that is best on average: picked before the test, and in hindsight.

By the rule of :mod:`oracle.best_static`, as training picks it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.evaluation import Evaluation, evaluate_queries
from analysis.oracle_policy import arm_rewards
from analysis.outcomes import Outcome, picks_of_single_arms, score
from analysis.roles import BEST_STATIC_ON_TEST
from oracle.best_static import first_available, static_order
from oracle.labels import Labels
from router.policy_names import BEST_STATIC


def hindsight_outcomes(evaluation: Evaluation, lams: Sequence[float]) -> list[Outcome]:
    """Best static arm picked on the evaluated queries themselves: an upper baseline."""
    return _outcomes(BEST_STATIC_ON_TEST, evaluation, evaluation, lams)


def trained_outcomes(
    labels: Labels, evaluation: Evaluation, lams: Sequence[float]
) -> list[Outcome]:
    """Best static arm picked on train and validation queries; for decisions that lack it."""
    seen = np.flatnonzero(np.isin(labels.splits, ("train", "val")))
    training = evaluate_queries(labels, seen, "train", evaluation.declared_arms)
    return _outcomes(BEST_STATIC, training, evaluation, lams)


def _outcomes(
    policy: str, picked_on: Evaluation, evaluation: Evaluation, lams: Sequence[float]
) -> list[Outcome]:
    """The best arm on ``picked_on`` as a policy on ``evaluation``; none where either is empty."""
    if not len(picked_on) or not len(evaluation):
        return []
    outcomes, has = [], np.isfinite(evaluation.latency_ms)
    for lam in lams:
        order = static_order(arm_rewards(picked_on, lam), picked_on.latency_ms)
        picks = picks_of_single_arms(evaluation, first_available(order, has).astype(np.int16))
        outcomes.append(score(evaluation, policy, lam, picks))
    return outcomes
