"""Policies that look at results before they choose: ``probing`` and ``cascade``.

``probing`` looks at what all arms find, or one of each kind, and reads the query's vector too: for
the best quality.
``cascade`` runs only what costs next to nothing, reads no vector, and goes on to a dearer arm where
the gain it expects is worth the latency at the λ asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from arms.errors import SettingsError
from router.policies.quality import QualityPolicy
from router.probe_features import LEAST_DEPTH
from training.fitting import FitContext, Rows
from training.quality_fit import fit_quality
from training.relevance_fit import tells_relevance
from training.settings import TrainingSettings
from training.table import RoutingTable

_LOG = logging.getLogger(__name__)
_MOST = 3


class ProbingLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.quality`."""

    name = "probing"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> QualityPolicy | None:
        """Fit; None, and said so, where the labels lack rankings or nothing can be probed."""
        context.task.advance()
        options, table = context.settings.probing, context.action.rows(train)
        default = every_arm(table)
        told = tells_relevance(context, default)
        if context.runs is not None and options.relevance.enabled and not told:
            _LOG.warning(
                "probing predicts from features of whole lists, not from which documents are "
                "relevant: that needs a quality of nDCG@k and a grade for every document in "
                "runs.parquet (l2r oracle adds them without ranking anew)"
            )
        if options.most is not None or not told:
            default = best_of_each_pipeline(table, options.most or _MOST)
        probes = _recorded(context, self.name, options.probes, default)
        if not probes:
            return None
        depth = probe_depth(context, probes, options.depth)
        return fit_quality(context, self.name, train, validation, probes, depth)


class CascadeLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.quality`."""

    name = "cascade"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> QualityPolicy | None:
        """Fit; None, and said so, where the labels lack rankings or no arm is cheap."""
        context.task.advance()
        options, table = context.settings.cascade, context.action.rows(train)
        default = cheap_arms(table, options.share)
        probes = _recorded(context, self.name, options.probes, default)
        if not probes:
            return None
        depth = probe_depth(context, probes, options.depth)
        return fit_quality(context, self.name, train, validation, probes, depth, with_vectors=False)


def every_arm(table: RoutingTable) -> tuple[str, ...]:
    """Return the arms that can be run and some dataset has, cheapest first."""
    order = np.argsort(table.mean_latency_ms(), kind="stable").tolist()
    return tuple(
        table.arms[column]
        for column in order
        if table.is_run(table.arms[column]) and table.competes[:, column].any()
    )


def best_of_each_pipeline(table: RoutingTable, most: int) -> tuple[str, ...]:
    """Return at most ``most`` arms of different pipelines, cheapest first.

    Of each pipeline (``text_dense`` over documents and over paragraphs are one) the arm with the
    highest mean quality, then the best of those; pipelines that fuse others are left out.
    """
    quality = np.where(table.competes, table.quality, 0.0).mean(axis=0)
    best: dict[str, int] = {}
    for column in np.argsort(-quality, kind="stable").tolist():
        arm = table.arms[column]
        if table.may_be_probe(arm) and table.competes[:, column].any():
            best.setdefault(table.pipeline_of(arm), column)
    latency_ms = table.mean_latency_ms()
    chosen = sorted(list(best.values())[:most], key=lambda column: (latency_ms[column], column))
    return tuple(table.arms[column] for column in chosen)


def probe_depth(context: FitContext, probes: Sequence[str], wanted: int) -> int:
    """Return how many documents of each probe to read: never more than the labels hold.

    A served query would show the model more than it was trained on.
    """
    held = 0 if context.runs is None else context.runs.depth(probes)
    return max(LEAST_DEPTH, min(wanted, held))


def cheap_arms(table: RoutingTable, share: float) -> tuple[str, ...]:
    """Return the arms of at most ``share`` of the dearest arm's mean latency, cheapest first."""
    latency_ms = table.mean_latency_ms()
    known = np.isfinite(latency_ms)
    if not known.any():
        return ()
    limit = share * latency_ms[known].max()
    order = np.argsort(latency_ms, kind="stable").tolist()
    return tuple(
        table.arms[column]
        for column in order
        if latency_ms[column] <= limit and table.may_be_probe(table.arms[column])
    )


def _recorded(
    context: FitContext, block: str, named: tuple[str, ...] | None, default: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the probes whose rankings the labels hold; none, logged why, where there are none.

    Raises:
        SettingsError: the settings name a probe that isn't an arm of A, or has no rankings.
    """
    runs, arms = context.runs, context.action.arms
    if runs is None:
        _LOG.warning("no %s policy: the labels hold no rankings (runs.parquet)", block)
        return ()
    wanted = default if named is None else named
    unknown = [probe for probe in wanted if probe not in arms]
    if unknown:
        raise SettingsError(
            f"training.{block}.probes names {', '.join(unknown)}; a router may probe the arms it "
            f"chooses from: {', '.join(arms)}"
        )
    held = tuple(probe for probe in wanted if any(one.doc_ids for one in runs.rankings(probe)))
    if named is not None and held != named:
        raise SettingsError(
            f"training.{block}.probes names {', '.join(sorted(set(named) - set(held)))}, of which "
            "the labels hold no rankings; leave them out, or rerun l2r oracle"
        )
    if not held:
        _LOG.warning("no %s policy: no arm could be probed, see training.%s", block, block)
    return held
