"""``merging``: runs a set of arms, chosen by λ, and ranks anew what they found.

Sets are nested, the cheapest arms first; each has models of its own. The sets of ``tuned_fusion``
stand beside them: where trees don't gain what they take, a few weights answer. What a set is worth
at a λ is measured on validation queries, beside every arm alone. ``merging_no_history`` is the same
without the history of documents: those models are a part of ``merging`` and answer there too, where
no document found has any.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from router.arm_sets import ArmSet
from router.frozen_queries import FrozenQueries
from router.policies.list_fusion import ListFusionPolicy
from router.policies.merging import MergingModel, MergingPolicy
from router.policy import Combine, Plan
from router.quality_model import query_columns
from router.query_vectors import QueryVectors
from router.relevance import RelevanceModel
from training.arm_sets import check_sets, lacking, measured, nested_sets, ranked_anew
from training.fitting import FitContext, Rows
from training.learners.list_fusion import TUNED_FUSION, FusionLearner
from training.learners.probing import probe_depth
from training.plan_outcomes import latency_of_arms, reused_ms
from training.quality_fit import fit_vectors, lists_of, relative_quality
from training.relevance_fit import fit_ordered
from training.settings import TrainingSettings

_LOG = logging.getLogger(__name__)
WITH_HISTORY = "merging"
WITHOUT_HISTORY = "merging_no_history"
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the models with history; the one that validation likes best is taken."""


class MergingLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.merging`."""

    def __init__(self, with_history: bool = True) -> None:
        self.with_history = with_history
        self.name = WITH_HISTORY if with_history else WITHOUT_HISTORY

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> MergingPolicy | None:
        """Fit; None, and said so, where the labels don't tell how documents were judged.

        Where the policy with history was fitted before, its models without are taken.
        """
        context.task.advance()
        fitted = context.learned.get(WITH_HISTORY)
        if not self.with_history and isinstance(fitted, MergingPolicy):
            policy: MergingPolicy | None = fitted.without_history(self.name)
        else:
            policy = self._fit_models(context, train, validation)
        held_out = validation if len(validation) else train
        datasets = sorted(set(context.action.datasets[train].astype(str)))
        return None if policy is None else with_means(context, policy, held_out, datasets)

    def _fit_models(
        self, context: FitContext, train: Rows, validation: Rows
    ) -> MergingPolicy | None:
        """Fit the models; what a set is worth isn't measured yet."""
        options, table = context.settings.merging, context.action.rows(train)
        sets = nested_sets(table, options.arm_sets) if options.sets is None else options.sets
        check_sets("merging", sets, table.arms)
        missing = lacking(context, [arm for arms in sets for arm in arms])
        if missing or not len(train):
            _LOG.warning("no %s policy: %s", self.name, missing or "no training queries")
            return None
        vectors, depth = None, probe_depth(context, table.arms, options.depth)
        reading = [reads_vectors(context, train, arms) for arms in sets]
        if any(reading):
            relative, _ = relative_quality(table)
            embedded, boosting = context.embedded[train], context.settings.boosting
            vectors = fit_vectors(embedded, relative, table.competes, boosting)
        arm_sets: list[ArmSet[MergingModel]] = [ArmSet((arm,)) for arm in table.arms]
        for arms, reads in zip(sets, reading, strict=True):
            arm_set = fit_arm_set(
                context, train, arms, vectors if reads else None, depth, self.with_history
            )
            arm_sets += [] if arm_set is None else [arm_set]
        queries = None if vectors is None else FrozenQueries.of(context.encoder)
        arm_sets += fused_sets_of(context, train, validation, depth) if options.fuse else []
        policy = MergingPolicy(
            self.name, table.arms, arm_sets, vectors, queries, depth, context.settings.tau
        )
        return weighed(context, policy, validation) if self.with_history else policy


def with_means(
    context: FitContext, policy: MergingPolicy, rows: Rows, datasets: Sequence[str]
) -> MergingPolicy:
    """Measure every set of ``policy`` on ``rows``, which are held out.

    With history, and what it would be without on other than ``datasets``, those of training.
    """
    options = context.settings.merging
    deciding_ms: Mapping[Combine, float] = {
        "merge": options.deciding_ms,
        "fuse": context.settings.fusion.deciding_ms,
    }
    times = deciding_ms, options.embedding_ms
    means = measured(context, policy, rows, *times)
    if not policy.learns_documents:
        return policy.with_arm_sets(means)
    without = measured(context, policy.without_history(policy.name), rows, *times)
    return policy.with_arm_sets(means, None, datasets, [one.quality for one in without])


def weighed(context: FitContext, policy: MergingPolicy, validation: Rows) -> MergingPolicy:
    """Give each set that weight of its models with history which validation queries like best.

    Of equal ones the least, so that history is left out where it gains nothing; without validation
    queries all of it counts.
    """
    if not len(validation):
        return policy
    found: list[ArmSet[MergingModel]] = []
    for number, arm_set in enumerate(policy.arm_sets):
        best, chosen, model = -np.inf, arm_set, arm_set.model
        has_history = isinstance(model, RelevanceModel) and model.plain is not None
        for weight in WEIGHTS if has_history else ():
            assert isinstance(model, RelevanceModel)
            weighted = replace(model, history_weight=weight) if weight else model.without_history()
            trial = replace(arm_set, model=weighted)
            others = [*found, trial, *policy.arm_sets[number + 1 :]]
            quality, _ = ranked_anew(context, policy.with_arm_sets(others), number, validation)
            if quality.mean() > best + 1e-9:
                best, chosen = float(quality.mean()), trial
        found.append(chosen)
    return policy.with_arm_sets(found)


def fused_sets_of(
    context: FitContext, train: Rows, validation: Rows, depth: int
) -> list[ArmSet[MergingModel]]:
    """Return the sets of tuned fusion, fitted anew where it wasn't; none that reads other depths.

    What they are worth isn't measured yet.
    """
    fused = context.learned.get(TUNED_FUSION)
    if not isinstance(fused, ListFusionPolicy):
        fused = FusionLearner(TUNED_FUSION).fit_sets(context, train, validation)
    if fused is None or fused.probe_depth != depth:
        return []
    return [ArmSet(one.arms, model=one.model) for one in fused.arm_sets if one.model is not None]


def reads_vectors(context: FitContext, train: Rows, arms: Sequence[str]) -> bool:
    """Whether a set's models read the query's vector: it costs nothing more, or little beside."""
    if not context.embedded.shape[1]:
        return False
    plans, every = [Plan(tuple(arms), "merge")] * len(train), context.every.rows(train)
    reusable = None if context.reusable_ms is None else context.reusable_ms[train]
    taken_ms = float(np.nanmean(latency_of_arms(plans, every)))
    shared = bool(reused_ms(plans, every, reusable).any())
    return shared or taken_ms >= context.settings.merging.vectors_from_ms


def fit_arm_set(
    context: FitContext,
    train: Rows,
    arms: Sequence[str],
    vectors: QueryVectors | None,
    depth: int,
    with_history: bool = True,
) -> ArmSet[MergingModel] | None:
    """Fit the models of a set of arms on ``train``; None where no arm found anything.

    What it is worth isn't measured yet. ``vectors`` are of ``train``, None to read none; ``depth``
    documents of each arm are looked at. ``with_history``: fit models that read it too.
    """
    lists = lists_of(context, train, arms, depth)
    components = None if vectors is None else vectors.project(context.embedded[train])
    of_query = query_columns(context.action.texts[train].tolist(), components, arms, lists)
    top = context.settings.merging.top
    model = fit_ordered(context, train, arms, lists, of_query, vectors, top, with_history)
    return None if model is None else ArmSet(tuple(arms), 0.0, 0.0, model, vectors is not None)
