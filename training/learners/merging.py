"""``merging``: runs a set of arms, chosen by λ, and ranks anew what they found.

Sets are nested, the cheapest arms first; each has models of its own. What a set is worth at a λ is
measured on validation queries, beside every arm alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arms.errors import SettingsError
from arms.reward import FloatArray, latency_share
from router.arm_sets import ArmSet
from router.frozen_queries import FrozenQueries
from router.policies.merging import MergingPolicy
from router.policy import Known, Plan
from router.quality_model import query_columns
from router.query_vectors import QueryVectors
from training.fitting import Rows, Workshop
from training.learners.probing import NOT_PROBES, pipeline_of, probe_depth
from training.own_rankings import own_quality, primary
from training.plan_outcomes import latency_of_arms, plan_outcomes, reused_ms
from training.quality_fit import fit_vectors, lists_of, relative_quality
from training.relevance_fit import cutoff, fit_relevance, grades_known
from training.settings import TrainingSettings
from training.table import RoutingTable

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
        _check(sets, table.arms)
        lacking = _lacking(shop, [arm for arms in sets for arm in arms])
        if lacking or not len(train):
            _LOG.warning("no %s policy: %s", self.name, lacking or "no training queries")
            return None
        vectors, depth = None, probe_depth(shop, table.arms, options.depth)
        reading = [reads_vectors(shop, train, arms) for arms in sets]
        if any(reading):
            relative, _ = relative_quality(table)
            embedded, boosting = shop.embedded[train], shop.settings.boosting
            vectors = fit_vectors(embedded, relative, table.competes, boosting)
        arm_sets = [ArmSet((arm,)) for arm in table.arms]
        for arms, reads in zip(sets, reading, strict=True):
            arm_set = fit_arm_set(shop, train, arms, vectors if reads else None, depth)
            arm_sets += [] if arm_set is None else [arm_set]
        queries = None if vectors is None else FrozenQueries.of(shop.encoder)
        policy = MergingPolicy(
            self.name, table.arms, arm_sets, vectors, queries, depth, shop.settings.tau
        )
        held_out = validation if len(validation) else train
        measured = _measured(shop, policy, held_out)
        return MergingPolicy(
            self.name, table.arms, measured, vectors, queries, depth, shop.settings.tau
        )


def nested_sets(table: RoutingTable, arm_sets: int) -> tuple[tuple[str, ...], ...]:
    """Return at most ``arm_sets`` sets of arms: the cheapest, those and the next, …, all.

    Arms are ordered by mean latency, and cut where it rises by the greatest factors, ties to the
    earlier; what merely fuses others, and what can't be run, is left out.
    """
    latency_ms = table.mean_latency_ms()
    order = [
        column
        for column in np.argsort(latency_ms, kind="stable").tolist()
        if pipeline_of(table.arms[column]) not in NOT_PROBES and table.competes[:, column].any()
    ]
    taken = np.maximum(latency_ms[order], 1e-3)
    rises = np.argsort(-(taken[1:] / taken[:-1]), kind="stable")[: arm_sets - 1] + 1
    ends = [*sorted(rises.tolist()), len(order)] if order else []
    return tuple(tuple(table.arms[column] for column in order[:end]) for end in ends)


def reads_vectors(shop: Workshop, train: Rows, arms: Sequence[str]) -> bool:
    """Whether a set's models read the query's vector: it costs nothing more, or little beside."""
    if not shop.embedded.shape[1]:
        return False
    plans, every = [Plan(tuple(arms), "merge")] * len(train), shop.every.rows(train)
    reusable = None if shop.reusable_ms is None else shop.reusable_ms[train]
    taken_ms = float(np.nanmean(latency_of_arms(plans, every)))
    shared = bool(reused_ms(plans, every, reusable).any())
    return shared or taken_ms >= shop.settings.merging.vectors_from_ms


def _check(sets: Sequence[Sequence[str]], arms: Sequence[str]) -> None:
    unknown = sorted({arm for one in sets for arm in one} - set(arms))
    if unknown:
        raise SettingsError(
            f"training.merging.sets names {', '.join(unknown)}; a router may run the arms it "
            f"chooses from: {', '.join(arms)}"
        )


def _lacking(shop: Workshop, arms: Sequence[str]) -> str | None:
    """What the labels lack; None where they have everything."""
    if not arms:
        return "no arm can be run beside those that fuse others"
    if shop.runs is None:
        return "the labels hold no rankings (runs.parquet)"
    if cutoff(shop) is None:
        return f"it ranks for nDCG@k, and quality is {shop.runs.measure}"
    if shop.runs.relevant_grades is None or not grades_known(shop, arms):
        return "; ".join(
            [
                "the labels don't tell how every document was judged (l2r oracle adds that "
                "without ranking anew)",
                *shop.runs.lacking_grades(arms),
            ]
        )
    return None


def fit_arm_set(
    shop: Workshop, train: Rows, arms: Sequence[str], vectors: QueryVectors | None, depth: int
) -> ArmSet | None:
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


def _measured(shop: Workshop, policy: MergingPolicy, rows: Rows) -> list[ArmSet]:
    """Each arm set with its means on ``rows``, the same queries for all.

    Where a query's dataset lacks the one arm of a set, the best of the others that it has counts.
    """
    table = shop.action.rows(rows)
    total_ms = table.total_latency_ms()
    stand_in = _stand_ins(table)
    found = []
    for number, arm_set in enumerate(policy.arm_sets):
        if arm_set.model is None:
            column = table.arms.index(arm_set.arms[0])
            columns = np.where(table.competes[:, column], column, stand_in)
            at = np.arange(len(rows)), columns
            quality, taken_ms = table.quality[at], table.latency_ms[at]
        else:
            quality, taken_ms = _of_merging(shop, policy, number, rows)
        share = latency_share(taken_ms, total_ms)
        found.append(
            replace(
                arm_set,
                quality=float(quality.mean()),
                share=float(share.mean()),
                latency_ms=float(taken_ms.mean()),
                queries=len(rows),
            )
        )
    return found


def _stand_ins(table: RoutingTable) -> NDArray[np.intp]:
    """(n,) of the arms that each query's dataset has, the best by mean quality."""
    known = np.where(table.competes, table.quality, 0.0)
    mean = known.sum(axis=0) / np.maximum(table.competes.sum(axis=0), 1)
    return np.asarray(np.where(table.competes, mean, -np.inf).argmax(axis=1))


def _of_merging(
    shop: Workshop, policy: MergingPolicy, number: int, rows: Rows
) -> tuple[FloatArray, FloatArray]:
    """(n,) realised quality, and (n,) milliseconds, of an arm set that merges."""
    assert shop.runs is not None
    arm_set, every = policy.arm_sets[number], shop.every.rows(rows)
    known = Known(
        embeddings=shop.embedded[rows] if arm_set.reads_vectors else None,
        probed=shop.runs.probed(arm_set.arms, rows, shop.every, policy.probe_depth),
        competes=shop.action.competes[rows],
    )
    decided = policy.merge(number, shop.action.texts[rows].tolist(), known)
    own = own_quality(shop.runs, rows, decided)
    options, reusable = shop.settings.merging, None
    deciding_ms = np.full(len(rows), options.deciding_ms)
    if arm_set.reads_vectors:
        reusable = None if shop.reusable_ms is None else shop.reusable_ms[rows]
        deciding_ms += _embedding_ms(reusable, len(rows), options.embedding_ms)
    outcomes = plan_outcomes(decided.plans, every, deciding_ms, reusable, primary(shop.runs, own))
    return outcomes.quality, outcomes.latency_ms


def _embedding_ms(reusable_ms: FloatArray | None, rows: int, otherwise: float) -> FloatArray:
    """(n,) what embedding a query takes: as an arm that makes the same vector was labelled."""
    most = np.zeros(rows) if reusable_ms is None else reusable_ms.max(axis=1)
    return np.where(most > 0, most, otherwise)
