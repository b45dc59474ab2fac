"""The numbers of a dataset card: per arm and per dataset, from the labels alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from oracle.labels import Labels


@dataclass(frozen=True, slots=True)
class ArmStatistics:
    """One arm over all queries; means are None where it never answered."""

    arm: str
    chosen_by_router: bool
    status: dict[str, int]
    """Status → number of queries; only those that occur."""
    mean_quality: float | None
    mean_latency_ms: float | None
    p95_latency_ms: float | None
    """95th percentile over queries of each query's median."""
    share_best: dict[float, float]
    """λ → share of the compared queries on which it is the best of the router's arms."""


@dataclass(frozen=True, slots=True)
class DatasetStatistics:
    """One dataset."""

    dataset: str
    queries: dict[str, int]
    """Split → number of queries."""
    arms: int
    """Arms of P that ran on it."""


def arm_statistics(labels: Labels, best: pa.Table, lams: Sequence[float]) -> list[ArmStatistics]:
    """Return statistics of each arm in P's order; ``best`` is ``best_arms.parquet``."""
    quality = labels.quality[labels.primary_measure]
    shares = {lam: _shares(best, lam) for lam in lams}
    found = []
    for column, arm in enumerate(labels.pipelines):
        ran = np.isin(labels.status[:, column], ("ok", "empty"))
        latency_ms = labels.latency_ms[ran, column]
        chosen = arm in labels.router_arms
        found.append(
            ArmStatistics(
                arm=arm,
                chosen_by_router=chosen,
                status=dict(sorted(Counter(labels.status[:, column].tolist()).items())),
                mean_quality=float(quality[ran, column].mean()) if ran.any() else None,
                mean_latency_ms=float(latency_ms.mean()) if ran.any() else None,
                p95_latency_ms=float(np.percentile(latency_ms, 95)) if ran.any() else None,
                share_best={lam: shares[lam].get(arm, 0.0) for lam in lams} if chosen else {},
            )
        )
    return found


def _shares(best: pa.Table, lam: float) -> dict[str, float]:
    lams = best["lam"].to_numpy()
    of_router = np.array(best["arm_set"].to_pylist(), dtype=object) == "router"
    arms = np.array(best["best_arm"].to_pylist(), dtype=object)[of_router & (lams == lam)]
    counts = Counter(arm for arm in arms.tolist() if arm is not None)
    total = sum(counts.values())
    return {arm: count / total for arm, count in counts.items()}


def dataset_statistics(labels: Labels) -> list[DatasetStatistics]:
    """Return statistics of each dataset, by name."""
    found = []
    for dataset in sorted(set(labels.datasets.tolist())):
        rows = labels.datasets == dataset
        splits = Counter(labels.splits[rows].tolist())
        found.append(
            DatasetStatistics(
                dataset=dataset,
                queries={split: splits.get(split, 0) for split in ("train", "val", "test")},
                arms=int((labels.status[rows] != "skipped").any(axis=0).sum()),
            )
        )
    return found
