"""Reward heat map (RetrievalRouter, figure 4): what each arm would have earned, by arm chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.evaluation import FloatArray, IntArray
from analysis.oracle_policy import arm_rewards
from analysis.outcomes import Outcome


@dataclass(frozen=True, eq=False)
class RewardMap:
    """Rows: the arm that ``policy`` chose; columns: mean reward of every arm on those queries."""

    policy: str
    lam: float
    arms: tuple[str, ...]
    """Of rows and columns: P in order."""
    rewards: FloatArray
    """(P, P) over the row's queries that have the column's arm; NaN where there are none."""
    counts: IntArray
    """(P,) queries for which each arm was chosen."""


def reward_map(outcome: Outcome) -> RewardMap:
    """Average every arm's reward over the queries sent to each arm."""
    evaluation = outcome.evaluation
    size = len(evaluation.pipelines)
    rewards = arm_rewards(evaluation, outcome.lam)
    means = np.full((size, size), np.nan)
    chosen = np.where(outcome.evaluated, outcome.answering_arm, -1)
    for row in range(size):
        members = chosen == row
        inside = rewards[members]
        known = np.isfinite(inside)
        np.divide(
            np.where(known, inside, 0.0).sum(axis=0),
            known.sum(axis=0),
            out=means[row],
            where=known.any(axis=0),
        )
    counts = np.bincount(chosen[chosen >= 0], minlength=size)
    return RewardMap(outcome.policy, outcome.lam, evaluation.pipelines, means, counts)
