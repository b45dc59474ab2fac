"""Calibration at the end of training, where everything is at hand."""

from __future__ import annotations

import numpy as np

from router.calibration import Calibration
from router.policy import Policy
from training.calibrating import HeldOut, calibrate_policy, lam_ranges, realised_by
from training.decide import Costs, already_known, reusable_ms
from training.fitting import FitContext


def calibrate_on_validation(
    context: FitContext, policy: Policy, costs: Costs, label_hash: str
) -> Calibration | None:
    """Measure a default policy on the validation queries, so that wishes work out of the box.

    Of ``costs`` the medians are charged. None without validation queries.
    """
    validation = (
        context.action.comparable & context.every.comparable & (context.action.splits == "val")
    )
    rows = np.flatnonzero(validation)
    if not len(rows):
        return None
    overhead_ms = {cost: float(np.median(taken)) for cost, taken in costs.items()}
    held_out = HeldOut(
        "val",
        context.action.rows(rows),
        context.every.rows(rows),
        label_hash,
        reusable_ms(context, policy, rows),
        context.runs,
        rows,
    )
    realised = realised_by(policy, held_out, overhead_ms, already_known(context, policy, rows))
    return calibrate_policy(
        realised,
        policy.lams,
        held_out,
        context.settings.lams,
        seed=context.settings.seed,
        steps=lam_ranges(policy),
    )
