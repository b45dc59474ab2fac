"""Means per policy and λ: over all queries, over datasets, and per dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from analysis.evaluation import BoolArray, FloatArray
from analysis.outcomes import LATENCY, OVERHEAD, REWARD, Outcome, Scores
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


def summarise(scores: Scores) -> list[Summary]:
    """Summarise every policy at every λ, micro and macro."""
    summaries = []
    for outcome, metrics in _with_metrics(scores):
        per_dataset = _per_dataset(outcome, metrics)
        everything = np.ones(len(scores.evaluation), dtype=bool)
        micro = _summary(outcome, metrics, MICRO, everything)
        samples = outcome.latency_samples_ms()
        if samples is not None and len(samples):
            micro.means[P95_SAMPLES] = float(np.percentile(samples, 95))  # type: ignore[index]
        summaries += [micro, _macro(micro, per_dataset)]
    return summaries


def summarise_datasets(scores: Scores) -> list[Summary]:
    """Summarise every policy at every λ in each dataset."""
    return [
        summary
        for outcome, metrics in _with_metrics(scores)
        for summary in _per_dataset(outcome, metrics)
    ]


def _with_metrics(scores: Scores) -> Iterator[tuple[Outcome, dict[str, FloatArray]]]:
    for policy in scores.policies:
        for lam in scores.lams:
            outcome = scores.get(policy, lam)
            if outcome is not None:
                yield outcome, _metrics(outcome, scores)


def _metrics(outcome: Outcome, scores: Scores) -> dict[str, FloatArray]:
    names = (*scores.evaluation.measures, REWARD, LATENCY, OVERHEAD)
    metrics = {name: outcome.values(name) for name in names}
    for name, oracle in ((REGRET_A, ORACLE_ROUTER_ARMS), (REGRET_P, ORACLE_PIPELINES)):
        best = scores.get(oracle, outcome.lam)
        if best is not None:
            metrics[name] = best.reward - outcome.reward
    return metrics


def _summary(
    outcome: Outcome, metrics: Mapping[str, FloatArray], scope: str, members: BoolArray
) -> Summary:
    means: dict[str, float] = {}
    for name, values in metrics.items():
        defined = values[members & np.isfinite(values)]
        if len(defined):
            means[name] = float(defined.mean())
            if name == LATENCY:
                means[P95] = float(np.percentile(defined, 95))
    n = int((outcome.evaluated & members).sum())
    return Summary(outcome.policy, outcome.lam, scope, n, int(members.sum()), means)


def _per_dataset(outcome: Outcome, metrics: Mapping[str, FloatArray]) -> list[Summary]:
    codes = outcome.evaluation.dataset_codes
    return [
        _summary(outcome, metrics, dataset, codes == code)
        for code, dataset in enumerate(outcome.evaluation.dataset_names)
    ]


def _macro(micro: Summary, per_dataset: list[Summary]) -> Summary:
    """Mean over the datasets on which the policy was evaluated, each counting once."""
    means = {}
    for name in micro.means:
        of_datasets = [summary.means[name] for summary in per_dataset if name in summary.means]
        if of_datasets:
            means[name] = float(np.mean(of_datasets))
    return Summary(micro.policy, micro.lam, MACRO, micro.n, micro.n_queries, means)
