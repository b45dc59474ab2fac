"""Arabzadeh et al. 2021 over frozen vectors: hard labels, and a threshold set by a budget."""

from __future__ import annotations

import logging

import numpy as np

from arms.reward import BoolArray, FloatArray
from router.frozen_queries import FrozenQueries
from router.policies.arabzadeh import ArabzadehPolicy
from training.baselines import Columns
from training.fitting import FitContext, Rows
from training.linear_fits import fit_softmax
from training.settings import TrainingSettings
from training.table import RoutingTable

_log = logging.getLogger(__name__)


def cheapest_success(
    succeeds: BoolArray, mean_latency_ms: FloatArray, competes: BoolArray
) -> Columns:
    """(Q,) the cheapest competing arm that succeeds; where none does, the cheapest that competes.

    Arms are ordered by their mean latency, (A,), ties to the earlier one, as RetrievalRouter (arXiv
    2608.25625, section 5.2) orders them; there, queries that no arm answers go to BM25.
    """
    cheap_first = np.argsort(mean_latency_ms, kind="stable")
    ordered = (succeeds & competes)[:, cheap_first]
    fallback = competes[:, cheap_first].argmax(axis=1)
    place = np.where(ordered.any(axis=1), ordered.argmax(axis=1), fallback)
    return np.asarray(cheap_first[place], dtype=np.intp)


def first_hits(table: RoutingTable) -> tuple[BoolArray, str]:
    """(Q, A) where an arm ranked a relevant result first, and what was counted as that.

    Without a measure of the first rank, only a quality of 1 is sure to have one: a perfect nDCG@5,
    say. Arms that found a relevant result first and missed others then count as failures.
    """
    if table.relevant_first is not None and table.first_measure is not None:
        return table.relevant_first, table.first_measure
    _log.warning(
        "arabzadeh: the labels hold no measure of the first rank, such as RR@5, so an arm "
        "counts as successful only where its quality is 1; label with RR@5 to follow the paper"
    )
    return table.quality == 1.0, "quality = 1"


class ArabzadehLearner:
    """See :mod:`training.learners.learner` and :mod:`router.policies.arabzadeh`."""

    name = "arabzadeh"

    def steps(self, settings: TrainingSettings) -> int:
        """One."""
        return 1

    def fit(self, context: FitContext, train: Rows, validation: Rows) -> ArabzadehPolicy | None:
        """Fit the classifier at each penalty; keep the lowest log loss on validation.

        The threshold's quantiles come from validation, or from training without validation queries.
        None without query vectors.
        """
        context.task.advance()
        table = context.action
        if not context.embedded.shape[1]:
            return None
        succeeds, success = first_hits(table)
        seen = table.rows(train)
        mean_ms = seen.mean_latency_ms()
        labels = cheapest_success(succeeds[train], mean_ms, seen.competes)
        candidates = [
            fit_softmax(context.embedded[train], labels, len(table.arms), penalty)
            for penalty in context.settings.arabzadeh.penalties
        ]
        head = candidates[-1]
        if len(validation):
            held = table.rows(validation)
            truth = cheapest_success(succeeds[validation], mean_ms, held.competes)
            vectors, rows = context.embedded[validation], np.arange(len(held))
            losses = [
                -np.log(np.maximum(one.probabilities(vectors)[rows, truth], 1e-12)).mean()
                for one in candidates
            ]
            head = candidates[int(np.argmin(losses))]
        cheapest = int(mean_ms.argmin())
        held_out = head.probabilities(context.embedded[validation if len(validation) else train])
        return ArabzadehPolicy(
            self.name,
            table.arms,
            FrozenQueries.of(context.encoder),
            head,
            table.arms[cheapest],
            held_out[:, cheapest],
            success,
        )
