"""The best arm per query and λ, with the arms that tie with it: derived from labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from arms.reward import normalised_latency, reward
from oracle.labels import FloatArray, Labels
from oracle.tables import BEST_ARM_SCHEMA

_SAME_REWARD = 1e-12
"""Rewards are of order 1 in float64; arms this close tie."""


def oracle_reward(labels: Labels, arms: Sequence[str], lam: float) -> FloatArray:
    """Return (Q, len(arms)) rewards; latency is normalised over the arms the dataset has.

    NaN where the dataset lacks the arm, and throughout a query on which any of the arms failed:
    such a query leaves the comparison.
    """
    columns = labels.columns_of(arms)
    competes = labels.available(arms)
    share = normalised_latency(labels.latency_ms[:, columns], competes)
    values = reward(labels.quality[labels.primary_measure][:, columns], share, lam)
    return np.where(labels.comparable(arms)[:, None], values, np.nan)


def best_arms(labels: Labels, lams: Sequence[float]) -> pa.Table:
    """Return ``best_arms.parquet``: one row per λ, arm set and query, in that order.

    ``arm_set`` is ``router`` (A) or ``pipelines`` (P), each normalised and compared by itself.
    ``best_arm`` is the first of ``ties`` in the pipelines' order; null, with no ties, where the
    query leaves the comparison.
    """
    sets = {"router": labels.router_arms, "pipelines": labels.pipelines}
    blocks = [
        _block(labels, arms, lam, arm_set) for lam in lams for arm_set, arms in sets.items() if arms
    ]
    return pa.concat_tables(blocks) if blocks else BEST_ARM_SCHEMA.empty_table()


def _block(labels: Labels, arms: Sequence[str], lam: float, arm_set: str) -> pa.Table:
    rewards = oracle_reward(labels, arms, lam)
    best = np.where(np.isnan(rewards), -np.inf, rewards).max(axis=1)
    tied = rewards >= best[:, None] - _SAME_REWARD  # False on NaN
    ties = [[arms[column] for column in np.flatnonzero(row).tolist()] for row in tied]
    n_queries = len(labels.query_ids)
    content: dict[str, Any] = {
        "dataset": labels.datasets.tolist(),
        "query_id": labels.query_ids.tolist(),
        "lam": [lam] * n_queries,
        "arm_set": [arm_set] * n_queries,
        "best_arm": [one[0] if one else None for one in ties],
        "ties": ties,
        "reward": [value if np.isfinite(value) else None for value in best.tolist()],
    }
    return pa.table(content, schema=BEST_ARM_SCHEMA)
