"""The λ-conditioned policy: one model over the frozen encoder for every λ."""

from __future__ import annotations

from router.policies.encoder import EncoderPolicy
from training.fitting import FitContext, Rows
from training.settings import TrainingSettings


class ConditionedLearner:
    """See :mod:`training.learners.learner` and :mod:`training.conditioned`."""

    name = "router_conditioned"

    def steps(self, settings: TrainingSettings) -> int:
        """One: all λ are fitted together."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> EncoderPolicy:
        """Fit heads at the knots of λ over the shared embeddings."""
        from training.conditioned import fit_conditioned_heads

        sides = [
            (context.embedded[rows], context.action.rows(rows)) for rows in (train, validation)
        ]
        heads, _ = fit_conditioned_heads(
            sides[0],
            sides[1] if len(validation) else None,
            context.settings,
        )
        context.task.advance()
        return EncoderPolicy(
            self.name,
            context.action.arms,
            heads,
            max_tokens=context.settings.max_tokens,
            dtype=context.settings.encoder_dtype,
            query_encoder=context.encoder,
            interpolated=True,
        )
