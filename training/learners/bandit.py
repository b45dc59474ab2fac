"""A contextual bandit in the manner of MBA-RAG, on a log simulated from the training queries."""

from __future__ import annotations

from router.frozen_queries import FrozenQueries
from router.policies.bandit import BanditPolicy
from training.bandit import estimate_outcomes, simulate_log
from training.fitting import FitContext, Rows
from training.settings import TrainingSettings


class BanditLearner:
    """See :mod:`training.learners.learner`, :mod:`training.bandit`, :mod:`router.policies.bandit`.

    It sees one arm's outcome of each training query and nothing of the validation queries.
    """

    name = "bandit"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> BanditPolicy | None:
        """Simulate the log and learn from it; None without query vectors."""
        context.task.advance()
        if not context.embedded.shape[1]:
            return None
        settings, table = context.settings, context.action.rows(train)
        log = simulate_log(table, context.embedded[train], settings.bandit, settings.seed)
        found = estimate_outcomes(log, len(table.arms), settings.bandit.penalties)
        return BanditPolicy(
            self.name,
            table.arms,
            FrozenQueries.of(context.encoder),
            found.quality,
            found.latency_ms,
            found.logged,
            settings.tau,
        )
