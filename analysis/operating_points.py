"""Operating points: every policy's mean latency and quality, and which are Pareto-optimal."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.frontier import on_frontier
from analysis.outcomes import LATENCY
from analysis.results import EvaluationResults
from analysis.roles import BEST_STATIC_ON_TEST, role_of
from analysis.summary import MICRO


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """One policy at one λ: means over the queries it was evaluated on."""

    policy: str
    lam: float
    latency_ms: float
    quality: float
    on_frontier: bool
    """Nothing but an oracle is at most as slow and at least as good."""
    incomplete: bool
    """Evaluated on fewer queries than the others, as some dataset lacks the arm."""


def pareto_points(evaluated: EvaluationResults) -> list[ParetoPoint]:
    """Every operating point; a static arm counts once, a policy at each λ. Oracles never rule."""
    measure = evaluated.scores.evaluation.primary_measure
    first = evaluated.scores.lams[0]
    kept = [
        one
        for one in evaluated.summaries
        if one.scope == MICRO
        and measure in one.means
        and one.policy != BEST_STATIC_ON_TEST
        and (role_of(one.policy) != "static" or one.lam == first)
    ]
    latency = np.array([one.means[LATENCY] for one in kept])
    quality = np.array([one.means[measure] for one in kept])
    rules = np.array(
        [role_of(one.policy) != "oracle" and one.n == one.n_queries for one in kept], dtype=bool
    )
    best = on_frontier(np.where(rules, latency, np.nan), quality)
    return [
        ParetoPoint(
            one.policy, one.lam, latency[i], quality[i], bool(best[i]), one.n < one.n_queries
        )
        for i, one in enumerate(kept)
    ]
