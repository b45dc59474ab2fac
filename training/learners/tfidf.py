"""TF-IDF and logistic regression on hard labels, one head per λ."""

from __future__ import annotations

from router.policies.tfidf import TfidfPolicy
from training import baselines
from training.fitting import FitContext, Rows
from training.settings import TrainingSettings


class TfidfLearner:
    """See :mod:`training.learners.learner`."""

    name = "tfidf"

    def steps(self, settings: TrainingSettings) -> int:
        """One for each λ."""
        return len(settings.lams)

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> TfidfPolicy | None:
        """Fit a head at each λ; None where the queries hold no words."""
        settings = context.settings
        training, validating = context.action.rows(train), context.action.rows(validation)
        features = baselines.tfidf_features(training.texts.tolist(), settings.baselines)
        if features is None:
            context.task.advance(self.steps(settings))
            return None
        heads = {}
        for lam in settings.lams:
            heads[lam] = baselines.fit_tfidf(
                features, training, validating, lam, settings.baselines
            )
            context.task.advance()
        return TfidfPolicy(self.name, context.action.arms, features.vectorizer, heads)
