"""Means per policy and λ: over all queries, over datasets, and per dataset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from analysis.evaluation import FloatArray, IntArray
from analysis.outcomes import LATENCY, OVERHEAD, REUSED, REWARD, Outcome, Scores
from analysis.roles import ORACLE_PIPELINES, ORACLE_ROUTER_ARMS

MICRO = "micro"
MACRO = "macro"
P95 = "latency_p95_ms"
P95_SAMPLES = "latency_p95_samples_ms"
REGRET_A = "regret_router_arms"
REGRET_P = "regret_pipelines"


@dataclass(frozen=True, slots=True)
class Summary:
    """Means of one policy at one λ; a metric that isn't defined is absent from ``means``."""

    policy: str
    lam: float
    scope: str
    """``micro`` (mean over queries), ``macro`` (mean over datasets' means) or a dataset."""
    n: int
    """Queries on which the policy was evaluated."""
    n_queries: int
    """Queries in this scope; more than ``n`` where a dataset lacks the arm."""
    means: Mapping[str, float]


def summarise(scores: Scores) -> tuple[list[Summary], list[Summary]]:
    """Summarise every policy at every λ: micro and macro, and separately in each dataset."""
    evaluation = scores.evaluation
    everything = np.arange(len(evaluation))
    members = [
        (name, np.flatnonzero(evaluation.dataset_codes == code))
        for code, name in enumerate(evaluation.dataset_names)
    ]
    overall: list[Summary] = []
    in_datasets: list[Summary] = []
    for outcome in (one for lam in scores.lams for one in scores.at(lam)):
        metrics = _metrics(outcome, scores)
        own = [_summary(outcome, metrics, name, rows) for name, rows in members]
        micro = _summary(outcome, metrics, MICRO, everything, outcome.latency_samples_ms())
        overall += [micro, _macro(micro, own)]
        in_datasets += own
    return overall, in_datasets


def _metrics(outcome: Outcome, scores: Scores) -> dict[str, FloatArray]:
    names = (*scores.evaluation.measures, REWARD, LATENCY, OVERHEAD, REUSED)
    metrics = {name: outcome.values(name) for name in names}
    for name, oracle in ((REGRET_A, ORACLE_ROUTER_ARMS), (REGRET_P, ORACLE_PIPELINES)):
        best = scores.get(oracle, outcome.lam)
        if best is not None:
            metrics[name] = best.reward - outcome.reward
    return metrics


def _summary(
    outcome: Outcome,
    metrics: Mapping[str, FloatArray],
    scope: str,
    rows: IntArray,
    samples_ms: FloatArray | None = None,
) -> Summary:
    means: dict[str, float] = {}
    n = int(outcome.evaluated[rows].sum())
    for name, values in metrics.items():
        defined = values[rows]
        defined = defined[np.isfinite(defined)]
        # Merged answers may lack a measure; a mean over the other queries wouldn't be comparable.
        untold = name in outcome.evaluation.quality and len(defined) < n
        if len(defined) and not untold:
            means[name] = float(defined.mean())
            if name == LATENCY:
                means[P95] = float(np.percentile(defined, 95))
    if samples_ms is not None and len(samples_ms):
        means[P95_SAMPLES] = float(np.percentile(samples_ms, 95))
    return Summary(outcome.policy, outcome.lam, scope, n, len(rows), means)


def _macro(micro: Summary, per_dataset: list[Summary]) -> Summary:
    """Mean over the datasets on which the policy was evaluated, each counting once."""
    means = {}
    for name in micro.means:
        of_datasets = [summary.means[name] for summary in per_dataset if name in summary.means]
        if of_datasets:
            means[name] = float(np.mean(of_datasets))
    return Summary(micro.policy, micro.lam, MACRO, micro.n, micro.n_queries, means)
