"""Reward heat map (RetrievalRouter, figure 4): what each arm would have earned, by arm chosen."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.evaluation import FloatArray, IntArray
from analysis.oracle_policy import arm_rewards
from analysis.outcomes import Outcome

MERGED = "merged"


@dataclass(frozen=True, eq=False)
class RewardMap:
    """Rows: the arm that ``policy`` chose; columns: mean reward of every arm on those queries."""

    policy: str
    lam: float
    arms: tuple[str, ...]
    """Of the columns: P in order."""
    rows: tuple[str, ...]
    """P in order, then ``merged`` where the policy answered some query with its own ranking."""
    rewards: FloatArray
    """(rows, P) over the row's queries that have the column's arm; NaN where there are none."""
    counts: IntArray
    """(rows,) queries for which each was chosen."""


def reward_map(outcome: Outcome) -> RewardMap:
    """Average every arm's reward over the queries sent to each arm, and over those merged."""
    evaluation = outcome.evaluation
    arms = evaluation.pipelines
    merged = outcome.evaluated & outcome.merged
    rows = (*arms, MERGED) if merged.any() else arms
    rewards = arm_rewards(evaluation, outcome.lam)
    means = np.full((len(rows), len(arms)), np.nan)
    chosen = np.where(outcome.evaluated, outcome.answering_arm, -1)
    chosen = np.where(merged, len(arms), chosen)
    for row in range(len(rows)):
        members = chosen == row
        inside = rewards[members]
        known = np.isfinite(inside)
        np.divide(
            np.where(known, inside, 0.0).sum(axis=0),
            known.sum(axis=0),
            out=means[row],
            where=known.any(axis=0),
        )
    counts = np.bincount(chosen[chosen >= 0], minlength=len(rows))
    return RewardMap(outcome.policy, outcome.lam, arms, rows, means, counts)
