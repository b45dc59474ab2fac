"""Which arms answer: the share of queries that a policy sends to each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.evaluation import BoolArray
from analysis.outcomes import Outcome, Scores
from analysis.roles import role_of
from analysis.summary import MICRO


@dataclass(frozen=True, slots=True)
class RoutingShare:
    """Shares over the arms of P, in P's order; they sum to 1 unless ``n`` is 0."""

    policy: str
    lam: float
    scope: str
    """``micro`` (all queries) or a dataset."""
    n: int
    shares: tuple[float, ...]
    merged: float = 0.0
    """Share of the queries that the policy answered with its own ranking of what several arms
    found; each counts under the arm that would have answered alone."""


def share_of(outcome: Outcome, scope: str, members: BoolArray) -> RoutingShare:
    """Count the answering arms over ``members`` (N,) that the policy was evaluated on."""
    decided = outcome.evaluated & members
    answered = outcome.answering_arm[decided]
    counts = np.bincount(answered, minlength=len(outcome.evaluation.pipelines))
    shares = tuple(float(share) for share in counts / max(len(answered), 1))
    merged = float(outcome.merged[decided].sum() / max(len(answered), 1))
    return RoutingShare(outcome.policy, outcome.lam, scope, len(answered), shares, merged)


def routing_shares(scores: Scores) -> list[RoutingShare]:
    """Shares of every policy that chooses, at every λ, over all queries and per dataset."""
    evaluation = scores.evaluation
    scopes = [(MICRO, np.ones(len(evaluation), dtype=bool))]
    for code, dataset in enumerate(evaluation.dataset_names):
        scopes.append((dataset, evaluation.dataset_codes == code))
    return [
        share_of(outcome, scope, members)
        for policy in scores.policies
        if role_of(policy) != "static"
        for lam in scores.lams
        if (outcome := scores.get(policy, lam)) is not None
        for scope, members in scopes
    ]
