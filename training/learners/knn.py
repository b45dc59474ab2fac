"""k nearest neighbours over the frozen encoder's vectors; k is chosen on validation."""

from __future__ import annotations

import numpy as np

from router.frozen_queries import FrozenQueries
from router.policies.knn import KnnPolicy
from training.fitting import FitContext, Rows
from training.learners.scoring import mean_reward
from training.settings import TrainingSettings


class KnnLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.knn`."""

    name = "knn"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> KnnPolicy | None:
        """Store the training queries; of equally good k keep the greatest.

        Without validation queries, the middle one of the values of k. None without query vectors.
        """
        context.task.advance()
        if not context.embedded.shape[1]:
            return None
        settings = context.settings
        sizes = sorted({min(k, len(train)) for k in settings.knn.k})
        candidates = [self._policy(context, train, k) for k in sizes]
        if len(candidates) == 1 or not len(validation):
            return candidates[len(candidates) // 2]
        scores = [
            np.mean([mean_reward(context, one, validation, lam) for lam in settings.lams])
            for one in candidates
        ]
        return max(zip(scores, sizes, candidates, strict=True), key=lambda one: one[:2])[2]

    def _policy(self, context: FitContext, train: Rows, k: int) -> KnnPolicy:
        table = context.action.rows(train)
        return KnnPolicy(
            self.name,
            table.arms,
            FrozenQueries.of(context.encoder),
            context.embedded[train],
            table.quality,
            table.latency_ms,
            table.competes,
            k,
            context.settings.tau,
        )
