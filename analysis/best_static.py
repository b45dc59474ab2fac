"""The single arm that is best on average: picked before the test, and in hindsight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.evaluation import Evaluation, evaluate_queries
from analysis.oracle_policy import TIE_TOLERANCE, arm_rewards
from analysis.outcomes import Outcome, picks_of_single_arms, score
from analysis.roles import BEST_STATIC, BEST_STATIC_ON_TEST
from oracle.labels import Labels


def best_column(evaluation: Evaluation, lam: float) -> int | None:
    """Column of the arm of P with the highest mean reward; None where no arm has all queries.

    Only arms that every query's dataset has compete, so that all means are over the same queries.
    Ties go to the lower mean latency, then to the order in P.
    """
    rewards = arm_rewards(evaluation, lam)
    complete = np.flatnonzero(np.isfinite(rewards).all(axis=0))
    if not len(complete) or not len(evaluation):
        return None
    means = rewards[:, complete].mean(axis=0)
    tied = means >= means.max() - TIE_TOLERANCE
    latency = np.where(tied, evaluation.latency_ms[:, complete].mean(axis=0), np.inf)
    return int(complete[latency.argmin()])


def hindsight_outcomes(evaluation: Evaluation, lams: Sequence[float]) -> list[Outcome]:
    """Best static arm picked on the evaluated queries themselves: an upper baseline."""
    columns = {lam: best_column(evaluation, lam) for lam in lams}
    return [
        _always(evaluation, BEST_STATIC_ON_TEST, lam, column)
        for lam, column in columns.items()
        if column is not None
    ]


def trained_outcomes(
    labels: Labels, evaluation: Evaluation, lams: Sequence[float]
) -> list[Outcome]:
    """Best static arm picked on train and validation queries; for decisions that lack it."""
    seen = np.flatnonzero(np.isin(labels.splits, ("train", "val")))
    training = evaluate_queries(labels, seen, "train", evaluation.declared_arms)
    columns = {lam: best_column(training, lam) for lam in lams}
    return [
        _always(evaluation, BEST_STATIC, lam, column)
        for lam, column in columns.items()
        if column is not None
    ]


def _always(evaluation: Evaluation, policy: str, lam: float, column: int) -> Outcome:
    picks = picks_of_single_arms(evaluation, np.full(len(evaluation), column, dtype=np.int16))
    return score(evaluation, policy, lam, picks)
