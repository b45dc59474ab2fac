"""The static-embedding router: as fast as counting words, taught by labels and by the encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.policies.static_embedding import LamHeads, StaticEmbeddingPolicy
from router.policy import PolicyInputs, masked
from router.text_views import NgramSpec, TokenIds
from training.data import supervision
from training.fitting import FitContext, Rows
from training.frozen import mean_reward_logits
from training.policy_settings import StaticEmbeddingSettings
from training.selection import simplest_within_error
from training.settings import TrainingSettings
from training.static_fit import FitOptions, LamTargets, StartView, fit_static, random_rows
from training.static_table import start_table

TEACHER = "router_conditioned"
_DEGREE = 2


class StaticEmbeddingLearner:
    """See :mod:`training.learners.learner` and :mod:`training.static_fit`."""

    name = "static_embedding"

    def steps(self, settings: TrainingSettings) -> int:
        """One for each strength of the pull to the start."""
        return len(settings.static_embedding.decays)

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> StaticEmbeddingPolicy:
        """Fit with each decay; of those and the constant head keep the simplest that is as good.

        Good: by mean reward on validation over the λ fitted, see :func:`damped` and
        :func:`training.selection.simplest_within_error`. Without validation queries the greatest
        decay is kept. Where the λ-conditioned router was fitted on the same rows, its
        probabilities are mixed into the targets.
        """
        settings = context.settings
        options = settings.static_embedding
        lams = tuple(sorted({*settings.lams, 0.0, 0.5, 1.0}))
        table = context.action.rows(train)
        tables = {lam: supervision(table, lam, settings.tau) for lam in lams}
        teacher = self._teacher(context, train, lams) if options.teacher_share > 0 else None
        targets = LamTargets.of(tables, teacher, options.teacher_share)
        bias = {lam: mean_reward_logits(one, settings.tau) for lam, one in tables.items()}
        decays = sorted(options.decays, reverse=True)
        if not len(validation):
            fitted = self._fit(context, train, targets, bias, decays[0])
            context.task.advance(self.steps(settings))
            return fitted
        constant = (
            [self._fit(context, train, targets, bias, None)] if options.allow_constant else []
        )
        learned = []
        for decay in decays:
            learned += damped(self._fit(context, train, targets, bias, decay))
            context.task.advance()
        # The fewer heads read the query, the simpler.
        learned.sort(key=lambda policy: float(np.abs(policy.heads.weight).max(axis=(1, 2)).sum()))
        candidates = [*constant, *learned]
        rewards = _rewards(context, candidates, validation, lams)
        return candidates[simplest_within_error(rewards, options.tolerance_se)]

    def _fit(
        self,
        context: FitContext,
        train: Rows,
        targets: LamTargets,
        bias: Mapping[float, NDArray[np.float32]],
        decay: float | None,
    ) -> StaticEmbeddingPolicy:
        """Fit; ``decay`` None gives the constant head."""
        options, settings = context.settings.static_embedding, context.settings
        start = start_table(context.encoder.resolved, options.start_from, options.dimension)
        tokens = TokenIds(start.tokenizer_json, settings.max_tokens)
        views = [StartView(tokens, start.rows, options.tuned, decay or 0.0)]
        for place, spec in enumerate(ngram_views(options)):
            rows = random_rows(spec.buckets, options.ngram_dimension, 1.0, settings.seed + place)
            views.append(StartView(spec, rows, True, decay or 0.0))
        return fit_static(
            self.name,
            context.action.arms,
            views,
            context.action.texts[train].tolist(),
            targets,
            bias,
            _DEGREE,
            FitOptions(
                0 if decay is None else options.epochs,
                options.batch_size,
                options.table_learning_rate,
                options.head_learning_rate,
                decay or 0.0,
                settings.head_dropout,
                options.id_dropout,
                settings.warmup_share,
                settings.seed,
            ),
            start.provenance,
        )

    def _teacher(
        self, context: FitContext, rows: Rows, lams: tuple[float, ...]
    ) -> dict[float, FloatArray] | None:
        """λ → (rows, A) what the λ-conditioned router says of its own training queries."""
        policy = context.learned.get(TEACHER)
        if policy is None or not context.embedded.shape[1]:
            return None
        table = context.action.rows(rows)
        known = PolicyInputs(embeddings=context.embedded[rows], competes=table.competes)
        texts = table.texts.tolist()
        return {lam: masked(policy.probabilities(texts, lam, known), known) for lam in lams}


def damped(policy: StaticEmbeddingPolicy) -> list[StaticEmbeddingPolicy]:
    """Return the policy with each of its heads as it is, halved or without a say, not all without.

    Where a λ leaves the query little to decide, a head over it only adds noise; which heads pay is
    seen on validation.
    """
    heads, found = policy.heads, []
    for shares in product((0.0, 0.5, 1.0), repeat=len(heads.weight)):
        if any(shares):
            weight = heads.weight * np.array(shares, dtype=np.float32)[:, None, None]
            damped_heads = LamHeads(weight, heads.bias, heads.lams)
            found.append(
                StaticEmbeddingPolicy(
                    policy.name, policy.arms, policy.features, damped_heads, policy.provenance
                )
            )
    return found


def _rewards(
    context: FitContext,
    policies: Sequence[StaticEmbeddingPolicy],
    rows: Rows,
    lams: tuple[float, ...],
) -> list[FloatArray]:
    """For each policy (rows,), the mean over the λ of the reward of the arm chosen."""
    table = context.action.rows(rows)
    texts, at = table.texts.tolist(), np.arange(len(rows))
    rewards_at = {lam: table.rewards(lam) for lam in lams}
    features_of: dict[int, NDArray[np.float32]] = {}
    found = []
    for policy in policies:
        key = id(policy.features)
        if key not in features_of:
            features_of[key] = policy.features(texts)
        total = np.zeros(len(rows))
        for lam in lams:
            logits = policy.heads.logits(features_of[key], lam)
            chosen = np.where(table.competes, logits, -np.inf).argmax(axis=1)
            total += rewards_at[lam][at, chosen]
        found.append(total / len(lams))
    return found


def ngram_views(options: StaticEmbeddingSettings) -> tuple[NgramSpec, ...]:
    """Return the n-grams looked at beside tokens."""
    known = {
        "words": NgramSpec("words", 1, 2, options.buckets),
        "characters": NgramSpec("characters", 2, 5, options.buckets),
        "shapes": NgramSpec("shapes", 1, 4, options.buckets),
    }
    return tuple(known[kind] for kind in options.ngrams)
