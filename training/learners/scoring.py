"""What a fitted policy earns on labelled queries: for choices made on validation."""

from __future__ import annotations

import numpy as np

from router.policy import Policy, PolicyInputs
from training.fitting import FitContext, Rows


def mean_reward(context: FitContext, policy: Policy, rows: Rows, lam: float) -> float:
    """Mean reward, under the paper's definition, of the arms that answer ``rows``.

    The policy must take the frozen encoder's vectors; its own overhead isn't charged.
    """
    table = context.action.rows(rows)
    known = PolicyInputs(embeddings=context.embedded[rows], competes=table.competes)
    decided = policy.decide(table.texts.tolist(), lam, known)
    columns = [table.arms.index(plan.answering_arm) for plan in decided.plans]
    return float(table.rewards(lam)[np.arange(len(rows)), columns].mean())
