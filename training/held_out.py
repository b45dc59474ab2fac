"""What a policy's choices come to on labelled queries: metrics for the artifact, and expectations.

The full comparison belongs to analysis; these numbers travel inside the router.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.artifact import Expected
from training.baselines import hard_best
from training.table import RoutingTable

COLLAPSE_SHARE = 0.95
_ENOUGH_QUERIES = 20


def held_out_metrics(table: RoutingTable, chosen: NDArray[np.intp], lam: float) -> dict[str, Any]:
    """Mean reward, regret, quality and latency over comparable queries, and shares per arm.

    ``collapsed`` is True where at least 95 % of the queries go to one arm and the oracle over the
    same arms sends fewer there: the router has stopped choosing. Without a comparable query, only
    ``queries`` (0) is there.
    """
    counted, picked = table.rows(table.comparable), chosen[table.comparable]
    if not len(counted):
        return {"queries": 0}
    rewards = counted.rewards(lam)
    rows = np.arange(len(counted))
    oracle = hard_best(counted, lam)
    shares, oracle_shares = (_shares(columns, len(table.arms)) for columns in (picked, oracle))
    top = int(shares.argmax())
    return {
        "queries": len(counted),
        "reward": float(rewards[rows, picked].mean()),
        "regret": float((rewards[rows, oracle] - rewards[rows, picked]).mean()),
        "quality": float(counted.quality[rows, picked].mean()),
        "latency_ms": float(counted.latency_ms[rows, picked].mean()),
        "share": dict(zip(table.arms, shares.tolist(), strict=True)),
        "collapsed": bool(shares[top] >= COLLAPSE_SHARE > oracle_shares[top]),
    }


def expected_per_arm(table: RoutingTable, chosen: NDArray[np.intp]) -> dict[str, Expected]:
    """What to expect of each arm when it is chosen: means over the queries sent to it.

    Where fewer than 20 queries were sent to an arm, the means are over all queries that have the
    arm; where there are none, the arm is left out.
    """
    expected = {}
    for column, arm in enumerate(table.arms):
        has_arm = table.comparable & table.competes[:, column]
        sent = has_arm & (chosen == column)
        rows = sent if sent.sum() >= _ENOUGH_QUERIES else has_arm
        if rows.any():
            expected[arm] = Expected(
                quality=float(table.quality[rows, column].mean()),
                latency_ms=float(table.latency_ms[rows, column].mean()),
                queries=int(rows.sum()),
            )
    return expected


def _shares(columns: NDArray[np.intp], arms: int) -> FloatArray:
    return np.bincount(columns, minlength=arms) / len(columns)
