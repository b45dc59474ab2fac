"""The simplest policies that answer with what several arms found, and the strongest of them.

``reciprocal_ranks`` fuses by ranks and fits nothing, ``tuned_fusion`` by scores with weights,
``tuned_fusion_prior`` adds how often a document was relevant to training queries.
``strongest_simple`` has the sets of the first two and every arm alone: at each λ it is the best of
these on validation, and what a learned policy has to be compared with.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal
from weakref import WeakKeyDictionary

import numpy as np

from arms.catalogue import find_kind
from arms.records import Architecture, Ranking
from router.arm_sets import ArmSet
from router.list_fusion import DocumentPrior, ListFusion
from router.policies.list_fusion import ListFusionPolicy
from router.policy_names import STRONGEST_SIMPLE
from training.arm_sets import check_sets, lacking, measured, nested_sets
from training.fitting import FitContext, Rows
from training.fusion_fit import Examples, Found, count_relevant, fit_fusion, found_by, prior_column
from training.recorded_runs import RecordedRuns
from training.relevance_fit import cutoff, ideal_gain
from training.settings import TrainingSettings
from training.table import RoutingTable

_LOG = logging.getLogger(__name__)
_FOUND: WeakKeyDictionary[RecordedRuns, dict[tuple[tuple[str, ...], int], Found]] = (
    WeakKeyDictionary()
)
Simple = Literal["reciprocal_ranks", "tuned_fusion", "tuned_fusion_prior"]
TUNED_FUSION: Simple = "tuned_fusion"
_PARTS: tuple[Simple, ...] = ("reciprocal_ranks", TUNED_FUSION)


class FusionLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.list_fusion`."""

    def __init__(self, name: Simple) -> None:
        self.name = name

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> ListFusionPolicy | None:
        """Fit; None, and said so, where the labels don't tell how documents were judged."""
        context.task.advance()
        return self.fit_sets(context, train, validation)

    def fit_sets(
        self, context: FitContext, train: Rows, validation: Rows
    ) -> ListFusionPolicy | None:
        """As :meth:`fit`, for a learner that takes the sets."""
        options, table = context.settings.fusion, context.action.rows(train)
        sets = fused_sets(table, options.arm_sets) if options.sets is None else options.sets
        check_sets("fusion", sets, table.arms)
        arms = tuple(arm for arm in table.arms if any(arm in one for one in sets))
        missing = lacking(context, arms)
        if missing or not len(train) or not sets:
            why = missing or ("no training queries" if sets else "fewer than two arms to fuse")
            _LOG.warning("no %s policy: %s", self.name, why)
            return None
        depth = min(options.depth, context.runs.depth(arms) if context.runs else 0)
        held_out = validation if len(validation) else train
        prior = None
        if self.name == "tuned_fusion_prior":
            prior = count_relevant(_found(context, arms, depth).rows(train))
        fusions = self._fusions(context, sets, arms, depth, train, held_out, prior)
        alone: list[ArmSet[ListFusion]] = [ArmSet((arm,)) for arm in table.arms]
        arm_sets = [*alone, *(ArmSet(one.arms, model=one) for one in fusions)]
        policy = ListFusionPolicy(
            self.name, table.arms, arm_sets, prior, depth, context.settings.tau
        )
        with_means = measured(context, policy, held_out, {"fuse": options.deciding_ms})
        return ListFusionPolicy(
            self.name, table.arms, with_means, prior, depth, context.settings.tau
        )

    def _fusions(
        self,
        context: FitContext,
        sets: Sequence[tuple[str, ...]],
        arms: tuple[str, ...],
        depth: int,
        train: Rows,
        held_out: Rows,
        prior: DocumentPrior | None,
    ) -> list[ListFusion]:
        if self.name == "reciprocal_ranks":
            return [ListFusion(one, "reciprocal_ranks", np.ones(len(one))) for one in sets]
        options, k, found = context.settings.fusion, cutoff(context), _found(context, arms, depth)
        assert k is not None

        def examples(rows: Rows) -> Examples:
            own, column = found.rows(rows), None
            if prior is not None:
                column = prior_column(prior, own, _groups(context, rows) if rows is train else None)
            return Examples(own, context.action.datasets[rows], column)

        training, holding = examples(train), examples(held_out)
        return [
            fit_fusion(one, training, holding, k, options.normalisations, options.per_dataset)
            for one in sets
        ]


class StrongestSimpleLearner:
    """Puts the fused sets of the simple policies, and every arm alone, into one policy."""

    name = STRONGEST_SIMPLE

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> ListFusionPolicy | None:
        """Of two fusions of the same arms keep the better; None where nothing was fused."""
        context.task.advance()
        fused = [
            one for name in _PARTS if isinstance(one := context.learned.get(name), ListFusionPolicy)
        ]
        if not fused:
            return None
        best: dict[tuple[str, ...], ArmSet[ListFusion]] = {}
        for arm_set in (one for policy in fused for one in policy.arm_sets):
            other = best.get(arm_set.arms)
            if other is None or arm_set.quality > other.quality:
                best[arm_set.arms] = arm_set
        depth = max(policy.probe_depth for policy in fused)
        return ListFusionPolicy(
            self.name, fused[0].arms, list(best.values()), None, depth, context.settings.tau
        )


def fused_sets(table: RoutingTable, count: int) -> tuple[tuple[str, ...], ...]:
    """Return sets of two arms or more: at most ``count`` nested ones, then pairs.

    A pair is the cheapest sparse arm with each arm that reranks. See
    :func:`training.arm_sets.nested_sets`.
    """
    latency_ms = table.mean_latency_ms()
    order = [table.arms[column] for column in np.argsort(latency_ms, kind="stable").tolist()]
    there = [arm for arm in order if table.competes[:, table.arms.index(arm)].any()]
    sparse = [arm for arm in there if architecture_of(table, arm) == "sparse"][:1]
    reranking = [arm for arm in there if architecture_of(table, arm) == "rerank"]
    pairs = [(cheap, dear) for cheap in sparse for dear in reranking]
    nested = [one for one in nested_sets(table, count) if len(one) > 1]
    return tuple(dict.fromkeys([*nested, *pairs]))


def architecture_of(table: RoutingTable, arm: str) -> Architecture | None:
    """Return the architecture of an arm of the catalogue; None of any other."""
    kind = find_kind(table.pipeline_of(arm))
    return None if kind is None else kind.architecture


def _found(context: FitContext, arms: tuple[str, ...], depth: int) -> Found:
    """What ``arms`` found for all labelled queries; read once, as folds ask again."""
    assert context.runs is not None
    known = _FOUND.setdefault(context.runs, {})
    if (arms, depth) not in known:
        rows, k = np.arange(len(context.action)), cutoff(context)
        nothing = [Ranking((), ())] * len(rows)
        probed = context.runs.probed(arms, rows, context.every, depth)
        rankings = {arm: probed.get(arm, nothing) for arm in arms}
        grades = {arm: context.runs.grades(arm) or [] for arm in arms}
        known[arms, depth] = found_by(rankings, grades, ideal_gain(context, rows, k or 1))
    return known[arms, depth]


def _groups(context: FitContext, rows: Rows) -> Rows:
    """(rows,) number of each query's group: what one of them was asked tells of the others."""
    return np.unique(context.action.split_groups[rows].astype(str), return_inverse=True)[1].ravel()
