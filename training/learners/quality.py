"""A quality predictor that reads the query alone: the reward of every arm at any λ."""

from __future__ import annotations

from router.policies.quality import QualityPolicy
from training.fitting import FitContext, Rows
from training.quality_fit import fit_quality
from training.settings import TrainingSettings


class QualityLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.quality`."""

    name = "router_quality"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> QualityPolicy | None:
        """Fit; None without query vectors."""
        policy = fit_quality(context, self.name, train, validation)
        context.task.advance()
        return policy
