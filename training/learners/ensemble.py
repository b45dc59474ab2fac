"""UniversalRAG's two ensembles, of the policies fitted before them on the same queries."""

from __future__ import annotations

import numpy as np

from router.policies.ensemble import EnsemblePolicy, Rule, first_sure
from router.policy import PolicyInputs
from training.baselines import choose
from training.fitting import FitContext, Rows
from training.settings import TrainingSettings


class EnsembleLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.ensemble`."""

    def __init__(self, rule: Rule) -> None:
        self.rule: Rule = rule
        self.name = f"ensemble_{rule}"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> EnsemblePolicy | None:
        """Put the members together; None where fewer than two of them were fitted."""
        context.task.advance()
        options = context.settings.ensemble
        members = [context.learned[name] for name in options.members if name in context.learned]
        if len(members) < 2:
            return None
        first = sorted(options.thresholds)[(len(options.thresholds) - 1) // 2]
        thresholds = dict.fromkeys(context.settings.lams, first)
        ensemble = EnsemblePolicy(self.name, members, self.rule, thresholds)
        if self.rule == "majority" or not len(validation):
            return ensemble
        for lam in context.settings.lams:
            thresholds[lam] = self._threshold(context, ensemble, validation, lam)
        return EnsemblePolicy(self.name, members, self.rule, thresholds)

    def _threshold(
        self, context: FitContext, ensemble: EnsemblePolicy, validation: Rows, lam: float
    ) -> float:
        """Return the threshold with the highest reward at ``lam``; ties to the smaller."""
        table = context.action.rows(validation)
        vectors = context.embedded[validation] if context.embedded.shape[1] else None
        known = PolicyInputs(embeddings=vectors, competes=table.competes)
        rows = ensemble.member_rows(table.texts.tolist(), lam, known)
        rewards, places = table.rewards(lam), np.arange(len(table))
        candidates = sorted(set(context.settings.ensemble.thresholds))
        means = [
            rewards[places, choose(first_sure(rows, one), table.competes)].mean()
            for one in candidates
        ]
        return candidates[int(np.argmax(means))]
