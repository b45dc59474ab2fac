"""The most that a policy could have come to, given what it is.

A policy that answers with one arm's list can at best pick the best arm of every query: its ceiling
is the oracle over the arms a router may choose. One that ranks anew what its arms found can at best
put those candidates in their ideal order, by judged grade: its ceiling is that order's quality, in
the time that its plan took. Where such a policy lets an arm answer, the oracle is its ceiling.
"""

from __future__ import annotations

import numpy as np

from analysis.outcomes import Outcome, Scores
from analysis.roles import IDEAL_ORDER, ORACLE_ROUTER_ARMS
from router.realised import plan_reward


def ceiling_of(scores: Scores, outcome: Outcome) -> Outcome | None:
    """Return the ceiling of ``outcome``, as an outcome at the same λ.

    Its ``policy`` names it: ``oracle(A)``, or ``ideal order of <policy>``. None where the decisions
    don't tell the ideal order of what a policy merged, or the scores hold no oracle.
    """
    oracle = scores.get(ORACLE_ROUTER_ARMS, outcome.lam)
    merged = outcome.merged
    if oracle is None or not merged.any():
        return oracle
    evaluation, ideal = outcome.evaluation, outcome.ceiling_quality or {}
    unknown = np.full(len(evaluation), np.nan)
    quality = {
        measure: np.where(merged, ideal.get(measure, unknown), oracle.values(measure))
        for measure in evaluation.measures
    }
    primary = quality[evaluation.primary_measure]
    if not np.isfinite(primary[merged]).all():
        return None
    latency_ms = np.where(merged, outcome.latency_ms, oracle.latency_ms)
    return Outcome(
        policy=IDEAL_ORDER + outcome.policy,
        lam=outcome.lam,
        evaluation=evaluation,
        answering_arm=np.where(merged, outcome.answering_arm, oracle.answering_arm),
        runs=np.where(merged[:, None], outcome.runs, oracle.runs),
        overhead_ms=np.where(merged, outcome.overhead_ms, 0.0),
        reused_encode_ms=np.where(merged, outcome.reused_encode_ms, 0.0),
        latency_ms=latency_ms,
        reward=plan_reward(primary, latency_ms, evaluation.total_latency_ms, outcome.lam),
        answer_quality=quality,
    )
