"""``merging``: runs a set of arms, chosen by λ, and ranks anew what they found.

Sets are nested, the cheapest arms first; each has models of its own. What a set is worth at a λ is
measured on validation queries, beside every arm alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from router.arm_sets import ArmSet
from router.frozen_queries import FrozenQueries
from router.policies.merging import MergingPolicy
from router.policy import Plan
from router.quality_model import query_columns
from router.query_vectors import QueryVectors
from router.relevance import RelevanceModel
from training.arm_sets import check_sets, lacking, measured, nested_sets
from training.fitting import Rows, Workshop
from training.learners.probing import probe_depth
from training.plan_outcomes import latency_of_arms, reused_ms
from training.quality_fit import fit_vectors, lists_of, relative_quality
from training.relevance_fit import fit_relevance
from training.settings import TrainingSettings

_LOG = logging.getLogger(__name__)


class MergingLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.merging`."""

    name = "merging"
    may_be_default = False

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, shop: Workshop, train: Rows, validation: Rows) -> MergingPolicy | None:
        """Fit; None, and said so, where the labels don't tell how documents were judged."""
        shop.task.advance()
        options, table = shop.settings.merging, shop.action.rows(train)
        sets = nested_sets(table, options.arm_sets) if options.sets is None else options.sets
        check_sets(self.name, sets, table.arms)
        missing = lacking(shop, [arm for arms in sets for arm in arms])
        if missing or not len(train):
            _LOG.warning("no %s policy: %s", self.name, missing or "no training queries")
            return None
        vectors, depth = None, probe_depth(shop, table.arms, options.depth)
        reading = [reads_vectors(shop, train, arms) for arms in sets]
        if any(reading):
            relative, _ = relative_quality(table)
            embedded, boosting = shop.embedded[train], shop.settings.boosting
            vectors = fit_vectors(embedded, relative, table.competes, boosting)
        arm_sets: list[ArmSet[RelevanceModel]] = [ArmSet((arm,)) for arm in table.arms]
        for arms, reads in zip(sets, reading, strict=True):
            arm_set = fit_arm_set(shop, train, arms, vectors if reads else None, depth)
            arm_sets += [] if arm_set is None else [arm_set]
        queries = None if vectors is None else FrozenQueries.of(shop.encoder)
        policy = MergingPolicy(
            self.name, table.arms, arm_sets, vectors, queries, depth, shop.settings.tau
        )
        held_out = validation if len(validation) else train
        with_means = measured(shop, policy, held_out, options.deciding_ms, options.embedding_ms)
        return MergingPolicy(
            self.name, table.arms, with_means, vectors, queries, depth, shop.settings.tau
        )


def reads_vectors(shop: Workshop, train: Rows, arms: Sequence[str]) -> bool:
    """Whether a set's models read the query's vector: it costs nothing more, or little beside."""
    if not shop.embedded.shape[1]:
        return False
    plans, every = [Plan(tuple(arms), "merge")] * len(train), shop.every.rows(train)
    reusable = None if shop.reusable_ms is None else shop.reusable_ms[train]
    taken_ms = float(np.nanmean(latency_of_arms(plans, every)))
    shared = bool(reused_ms(plans, every, reusable).any())
    return shared or taken_ms >= shop.settings.merging.vectors_from_ms


def fit_arm_set(
    shop: Workshop, train: Rows, arms: Sequence[str], vectors: QueryVectors | None, depth: int
) -> ArmSet[RelevanceModel] | None:
    """Fit the models of a set of arms on ``train``; None where no arm found anything.

    What it is worth isn't measured yet. ``vectors`` are of ``train``, None to read none; ``depth``
    documents of each arm are looked at.
    """
    lists = lists_of(shop, train, arms, depth)
    components = None if vectors is None else vectors.project(shop.embedded[train])
    of_query = query_columns(shop.action.texts[train].tolist(), components, arms, lists)
    model = fit_relevance(
        shop,
        train,
        arms,
        lists,
        of_query,
        vectors,
        top=shop.settings.merging.top,
        ordered=True,
    )
    return None if model is None else ArmSet(tuple(arms), 0.0, 0.0, model, vectors is not None)
