"""What a fitted policy earns on labelled queries: for choices made on validation."""

from __future__ import annotations

import numpy as np

from router.policy import Known, Policy
from training.fitting import Rows, Workshop


def mean_reward(shop: Workshop, policy: Policy, rows: Rows, lam: float) -> float:
    """Mean reward, under the paper's definition, of the arms that answer ``rows``.

    The policy must take the frozen encoder's vectors; its own overhead isn't charged.
    """
    table = shop.action.rows(rows)
    known = Known(embeddings=shop.embedded[rows], competes=table.competes)
    decided = policy.decide(table.texts.tolist(), lam, known)
    columns = [table.arms.index(plan.answering_arm) for plan in decided.plans]
    return float(table.rewards(lam)[np.arange(len(rows)), columns].mean())
