"""Calibration at the end of training, where everything is at hand."""

from __future__ import annotations

import numpy as np

from router.calibration import Calibration
from router.policy import Policy
from training.calibrating import HeldOut, calibrate_policy, realised_by, steps_of
from training.deciding import Costs, already_known, reusable_ms
from training.fitting import Workshop


def calibrate_on_validation(
    shop: Workshop, policy: Policy, costs: Costs, label_hash: str
) -> Calibration | None:
    """Measure a default policy on the validation queries, so that wishes work out of the box.

    Of ``costs`` the medians are charged. None without validation queries.
    """
    validation = shop.action.comparable & shop.every.comparable & (shop.action.splits == "val")
    rows = np.flatnonzero(validation)
    if not len(rows):
        return None
    overhead_ms = {cost: float(np.median(taken)) for cost, taken in costs.items()}
    held_out = HeldOut(
        "val",
        shop.action.rows(rows),
        shop.every.rows(rows),
        label_hash,
        reusable_ms(shop, policy, rows),
        shop.runs,
        rows,
    )
    realised = realised_by(policy, held_out, overhead_ms, already_known(shop, policy, rows))
    return calibrate_policy(
        realised,
        policy.lams,
        held_out,
        shop.settings.lams,
        seed=shop.settings.seed,
        steps=steps_of(policy),
    )
