"""Decided plans looked up in a routing table; :mod:`router.realised` adds up what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arms.errors import LabelsError
from arms.reward import BoolArray, FloatArray
from oracle.best_arm import Columns
from router.policy import Plan
from router.realised import (
    answered_quality,
    answering_columns,
    arms_run,
    plan_latency_ms,
    plan_reward,
    sum_over_run,
)
from training.table import RoutingTable


@dataclass(frozen=True)
class PlanOutcomes:
    """One row per query, in the order of the plans."""

    answering: Columns
    """(n,) column, in the table, of the arm that answers."""
    quality: FloatArray
    """(n,)."""
    latency_ms: FloatArray
    """(n,) all arms of the plan and the policy's own overhead, less what is reused."""


def plan_outcomes(
    plans: Sequence[Plan],
    every: RoutingTable,
    overhead_ms: float | FloatArray,
    reusable_ms: FloatArray | None = None,
    own_quality: FloatArray | None = None,
) -> PlanOutcomes:
    """Look the plans up in the labels.

    Args:
        plans: one per query of ``every``.
        every: the queries over P, all arms that were run: probes may lie outside A.
        overhead_ms: of deciding, for all or for each query.
        reusable_ms: (n, P) what each arm saves by taking the policy's query vector, see
            :mod:`training.reused_encoding`; None: nothing.
        own_quality: (n,) of rankings that the policy made itself (:mod:`training.merged_quality`),
            NaN where an arm answers; None where one always does.

    Raises:
        LabelsError: a plan fuses arms and no quality of that is given, or an arm of a plan
            failed, or is answered by one that the dataset lacks.
    """
    untold = np.flatnonzero(~quality_told(plans, own_quality))
    if len(untold):
        raise LabelsError(
            f"the plan {plans[untold[0]]} fuses arms, and labels hold no quality of fused "
            "rankings; run the fusion as an arm of its own (l2r oracle), or choose another policy"
        )
    answering, rows = answering_columns(plans, every.arms), np.arange(len(plans))
    quality = answered_quality(every.quality[rows, answering], own_quality)
    reused = reused_ms(plans, every, reusable_ms)
    latency_ms = plan_latency_ms(latency_of_arms(plans, every), overhead_ms, reused)
    unknown = np.flatnonzero(~(np.isfinite(quality) & np.isfinite(latency_ms)))
    if len(unknown):
        row = unknown[0]
        raise LabelsError(
            f"{len(unknown)} plans run an arm without a label, first {plans[row]} on the query "
            f"'{every.query_ids[row]}' of {every.datasets[row]}; label these arms (l2r oracle)"
        )
    return PlanOutcomes(answering, quality, latency_ms)


def quality_told(plans: Sequence[Plan], own_quality: FloatArray | None) -> BoolArray:
    """(n,) False where a plan fuses arms and its policy made no ranking (n,) of its own.

    Labels hold the quality of arms; of such a fusion they know none.
    """
    fuses = np.array([one.combine == "fuse" and len(one.arms) > 1 for one in plans], dtype=bool)
    return ~fuses if own_quality is None else ~fuses | np.isfinite(own_quality)


def latency_of_arms(plans: Sequence[Plan], every: RoutingTable) -> FloatArray:
    """(n,) milliseconds of all arms that each plan runs; NaN where one has no label."""
    return sum_over_run(arms_run(plans, every.arms) & every.competes, every.latency_ms)


def reused_ms(
    plans: Sequence[Plan], every: RoutingTable, reusable_ms: FloatArray | None
) -> FloatArray:
    """(n,) encoding that the arms of each plan needn't do; see :func:`plan_outcomes`."""
    if reusable_ms is None:
        return np.zeros(len(plans))
    return sum_over_run(arms_run(plans, every.arms) & every.competes, reusable_ms)


def plan_rewards(outcomes: PlanOutcomes, action: RoutingTable, lam: float) -> FloatArray:
    """(n,) Equation 1; the plan's whole latency over the sum of A's latencies, as for one arm."""
    return plan_reward(outcomes.quality, outcomes.latency_ms, action.total_latency_ms(), lam)
