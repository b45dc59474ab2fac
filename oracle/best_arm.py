"""The best arm per query and λ, with the arms that tie with it: the one rule for it.

The highest reward wins; rewards within 1e-12 tie. Of tied arms the one with the lower latency on
that query is the best, then the earlier arm. ``best_arms.parquet``, the oracle policy of reports,
hard labels in training and the best static arm (:mod:`oracle.best_static`) all ask here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from arms.reward import normalised_latency, reward
from oracle.labels import FloatArray, Labels
from oracle.tables import BEST_ARM_SCHEMA

Columns = NDArray[np.intp]
_SAME_REWARD = 1e-12
"""Rewards are of order 1 in float64; arms this close tie."""


def tied_for_best(rewards: FloatArray) -> NDArray[np.bool_]:
    """(n, arms) True where an arm has the highest reward of its query; NaN never has it."""
    best = np.where(np.isnan(rewards), -np.inf, rewards).max(axis=1, keepdims=True, initial=-np.inf)
    return np.asarray(rewards >= best - _SAME_REWARD)  # False on NaN


def best_columns(rewards: FloatArray, latency_ms: FloatArray) -> Columns:
    """(n,) column of the best arm: highest reward, then lower latency, then order.

    −1 where no arm has a reward.

    Args:
        rewards: (n, arms); NaN where a query lacks the arm.
        latency_ms: (n, arms); read where arms tie.
    """
    tied = tied_for_best(rewards)
    if not tied.shape[1]:
        return np.full(len(rewards), -1, dtype=np.intp)
    # NaN latency of a tied arm would win argmin: it counts as the longest.
    latency = np.where(tied, np.nan_to_num(latency_ms, nan=np.finfo(np.float64).max), np.inf)
    return np.where(tied.any(axis=1), latency.argmin(axis=1), -1).astype(np.intp)


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
    ``ties`` stand in the pipelines' order; ``best_arm`` is the fastest of them on the query, the
    first where equal. Null, with no ties, where the query leaves the comparison.
    """
    sets = {"router": labels.router_arms, "pipelines": labels.pipelines}
    blocks = [
        _block(labels, arms, lam, arm_set) for lam in lams for arm_set, arms in sets.items() if arms
    ]
    return pa.concat_tables(blocks) if blocks else BEST_ARM_SCHEMA.empty_table()


def _block(labels: Labels, arms: Sequence[str], lam: float, arm_set: str) -> pa.Table:
    rewards = oracle_reward(labels, arms, lam)
    highest = np.where(np.isnan(rewards), -np.inf, rewards).max(axis=1)
    columns = best_columns(rewards, labels.latency_ms[:, labels.columns_of(arms)])
    ties = [
        [arms[column] for column in np.flatnonzero(row).tolist()] for row in tied_for_best(rewards)
    ]
    n_queries = len(labels.query_ids)
    content: dict[str, Any] = {
        "dataset": labels.datasets.tolist(),
        "query_id": labels.query_ids.tolist(),
        "lam": [lam] * n_queries,
        "arm_set": [arm_set] * n_queries,
        "best_arm": [arms[column] if column >= 0 else None for column in columns.tolist()],
        "ties": ties,
        "reward": [value if np.isfinite(value) else None for value in highest.tolist()],
    }
    return pa.table(content, schema=BEST_ARM_SCHEMA)
