"""UniversalRAG's multi-label router on oracle labels: multi-hot targets, binary cross-entropy."""

from __future__ import annotations

import numpy as np

from arms.reward import BoolArray, FloatArray
from router.frozen_queries import FrozenQueries
from router.policies.encoder import LinearHead
from router.policies.multi_label import MultiLabelPolicy
from training.fitting import FitContext, Rows
from training.linear_fits import fit_sigmoids
from training.settings import TrainingSettings
from training.targets import gradient_weight


def multi_hot(rewards: FloatArray, competes: BoolArray, tolerance: float) -> BoolArray:
    """(Q, A) True for the competing arms whose reward is within ``tolerance`` of the best."""
    known = np.where(competes, rewards, -np.inf)
    best = known.max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(competes & (known >= best - tolerance))


class MultiLabelLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.multi_label`."""

    name = "multi_label"

    def steps(self, settings: TrainingSettings) -> int:
        """One for each λ."""
        return len(settings.lams)

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> MultiLabelPolicy | None:
        """Fit sigmoids at each λ and penalty; keep the lowest loss on validation.

        A query that every arm fails leaves the loss at λ = 0, as it leaves the router's gradient.
        Without validation queries the largest penalty is kept. None without query vectors.
        """
        settings = context.settings
        if not context.embedded.shape[1]:
            context.task.advance(self.steps(settings))
            return None
        heads = {}
        for lam in settings.lams:
            heads[lam] = self._head(context, train, validation, lam)
            context.task.advance()
        return MultiLabelPolicy(
            self.name,
            context.action.arms,
            FrozenQueries.of(context.encoder),
            heads,
            settings.multi_label.threshold,
            context.fusions,
            settings.multi_label.fuse == "labelled",
        )

    def _head(self, context: FitContext, train: Rows, validation: Rows, lam: float) -> LinearHead:
        options = context.settings.multi_label
        targets, counted = self._targets(context, train, lam)
        candidates = [
            fit_sigmoids(context.embedded[train], targets, counted, penalty)
            for penalty in options.penalties
        ]
        if not len(validation):
            return candidates[-1]
        truth, cells = self._targets(context, validation, lam)
        losses = []
        for head in candidates:
            logits = context.embedded[validation] @ head.weight.T + head.bias
            losses.append(np.where(cells, np.logaddexp(0.0, logits) - truth * logits, 0.0).sum())
        return candidates[int(np.argmin(losses))]

    def _targets(self, context: FitContext, rows: Rows, lam: float) -> tuple[BoolArray, BoolArray]:
        table = context.action.rows(rows)
        rewards = table.rewards(lam)
        telling = gradient_weight(rewards, table.competes) > 0
        tolerance = context.settings.multi_label.tolerance
        return multi_hot(rewards, table.competes, tolerance), table.competes & telling[:, None]
