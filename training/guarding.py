"""Fits the guard of a policy: its training queries' directions, a threshold, a fallback arm."""

from __future__ import annotations

import numpy as np

from arms.errors import SettingsError
from arms.reward import normalised_latency
from router.domain import Domain, distance_threshold, unit_rows
from router.policies.guarded import GuardedPolicy
from router.policy import Embeddings, Policy
from training.fitting import FitContext, Rows
from training.table import RoutingTable

MOST_VECTORS = 20_000
"""Of training queries that are kept: at d = 384 and half precision, 15 MB."""


def guard(
    context: FitContext, name: str, policy: Policy, train: Rows, validation: Rows
) -> GuardedPolicy | None:
    """Wrap ``policy``; None where it reads no query vectors or nothing is held out.

    See :func:`domain_of` for the threshold.
    """
    if not len(train) or not len(validation):
        return None
    inside, held = (query_vectors(context, policy, rows) for rows in (train, validation))
    if inside is None or held is None:
        return None
    domain = domain_of(inside, held, context.settings.out_of_domain.false_alarm_rate)
    quality, latency_share = mean_outcomes(context.action.rows(np.concatenate([train, validation])))
    return GuardedPolicy(name, policy, domain, quality, latency_share)


def query_vectors(context: FitContext, policy: Policy, rows: Rows) -> Embeddings | None:
    """(rows, d) the vectors that ``policy`` reads: the shop's, or its own; None without."""
    if not policy.reads_vectors:
        return None
    revision = policy.frozen_encoder()
    if revision is None:
        return policy.embed(context.action.texts[rows].tolist(), min(context.settings.lams))
    same = revision == context.encoder.resolved.revision and context.embedded.shape[1] > 0
    return context.embedded[rows] if same else None


def domain_of(train: Embeddings, validation: Embeddings, false_alarm_rate: float) -> Domain:
    """Keep (T, d) training queries' directions; place the threshold on (V, d) validation queries.

    ``false_alarm_rate`` of those lie beyond it. Of more than ``MOST_VECTORS`` training queries,
    evenly spread ones are kept.
    """
    spread = np.linspace(0, len(train) - 1, min(MOST_VECTORS, len(train)))
    kept = train[np.unique(spread.round().astype(np.intp))]
    vectors = unit_rows(kept).astype(np.float16)
    distances = Domain(vectors, 0.0, false_alarm_rate).distances(validation)
    return Domain(vectors, distance_threshold(distances, false_alarm_rate), false_alarm_rate)


def guarded(
    context: FitContext, name: str, policy: Policy, train: Rows, validation: Rows
) -> GuardedPolicy:
    """Guard ``policy``, as the settings ask for it.

    Raises:
        SettingsError: it can't be guarded.
    """
    found = guard(context, name, policy, train, validation)
    if found is None:
        raise SettingsError(
            "training.out_of_domain needs a default router that reads query vectors, and "
            "validation queries for its threshold; set training.router to one of them (e.g. "
            "static_embedding, router_per_lam), or training.out_of_domain.enabled to false"
        )
    return found


def mean_outcomes(table: RoutingTable) -> tuple[np.ndarray, np.ndarray]:
    """(A,) mean quality and (A,) mean latency share: at any λ, the mean reward of each arm.

    A query whose dataset lacks an arm counts as reward 0 for it, as for the best static arm.
    """
    shares = normalised_latency(table.latency_ms, table.competes)
    return (
        np.where(table.competes, table.quality, 0.0).mean(axis=0),
        np.where(table.competes, shares, 1.0).mean(axis=0),
    )
