"""What a policy's choices come to on labelled queries: metrics for the artifact, and expectations.

The full comparison belongs to analysis; these numbers travel inside the router.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.collapse import collapsed_arm
from router.policy import Expected
from router.realised import answered_quality, plan_reward
from training.baselines import hard_best
from training.decide import Chosen
from training.table import RoutingTable

_ENOUGH_QUERIES = 20


def held_out_metrics(
    table: RoutingTable, chosen: Chosen, lam: float, chooses: bool = True
) -> dict[str, Any]:
    """Mean reward, regret, quality and latency over comparable queries, and shares per arm.

    ``chosen`` is about the (Q,) queries of ``table``; its milliseconds are charged as in reports:
    in full, over the sum of the arms' latencies in the reward. Without them (a policy that
    fuses arms) only the shares are told. A policy that merges counts under the arms that would have
    answered alone, and the oracle, which picks one arm, may be passed by it.

    ``collapsed`` is True where at least 95 % of the queries go to one arm and the oracle over the
    same arms sends fewer there: the router has stopped choosing. A policy that merges hasn't, nor
    one that isn't meant to choose by query at this λ (``chooses``).
    Without a comparable query, only ``queries`` (0) is there.
    """
    latency_ms = chosen.latency_ms
    known = table.comparable & (True if latency_ms is None else np.isfinite(latency_ms))
    counted, picked = table.rows(known), chosen.rows(known)
    if not len(counted):
        return {"queries": 0}
    oracle = hard_best(counted, lam)
    shares, oracle_shares = (
        _shares(columns, len(table.arms)) for columns in (picked.columns, oracle)
    )
    merges = picked.own_quality is not None and bool(np.isfinite(picked.own_quality).any())
    one_arm = collapsed_arm(shares.tolist(), oracle_shares.tolist()) is not None
    return {
        "queries": len(counted),
        **({} if latency_ms is None else _earned(counted, picked, oracle, lam)),
        "share": dict(zip(table.arms, shares.tolist(), strict=True)),
        "oracle_share": dict(zip(table.arms, oracle_shares.tolist(), strict=True)),
        "collapsed": one_arm and chooses and not merges,
    }


def _earned(
    table: RoutingTable, picked: Chosen, oracle: NDArray[np.intp], lam: float
) -> dict[str, float]:
    assert picked.latency_ms is not None
    rows, total_ms = np.arange(len(table)), table.total_latency_ms()
    quality = answered_quality(table.quality[rows, picked.columns], picked.own_quality)
    got = plan_reward(quality, picked.latency_ms, total_ms, lam)
    return {
        "reward": float(got.mean()),
        "regret": float((table.rewards(lam)[rows, oracle] - got).mean()),
        "quality": float(quality.mean()),
        "latency_ms": float(picked.latency_ms.mean()),
    }


def collapse_warnings(metrics: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """A sentence for each policy and arm where the policy has collapsed, on validation queries.

    ``metrics``: policy → λ → split → :func:`held_out_metrics`, as a router's record holds them.
    Without validation queries the test queries tell. Policies that take a λ from elsewhere, or
    have no shares, say nothing.
    """
    told: dict[tuple[str, str, str], list[tuple[str, float, float]]] = {}
    for policy, by_lam in metrics.items():
        for lam, by_split in by_lam.items():
            split = next((name for name in ("val", "test") if _counted(by_split, name)), None)
            if split is None or not by_split[split]["collapsed"]:
                continue
            share, oracle = by_split[split]["share"], by_split[split]["oracle_share"]
            arm = max(share, key=share.__getitem__)
            told.setdefault((policy, arm, split), []).append((lam, share[arm], oracle[arm]))
    return [_warning(*key, found) for key, found in told.items()]


def _counted(by_split: Mapping[str, Any], split: str) -> bool:
    return bool(by_split.get(split, {}).get("queries"))


def _warning(policy: str, arm: str, split: str, found: list[tuple[str, float, float]]) -> str:
    lams, shares, oracles = zip(*found, strict=True)
    named = {"val": "validation", "test": "test"}[split]
    return (
        f"{policy} has collapsed at λ = {', '.join(lams)}: it sends {_percent(shares)} of the "
        f"{named} queries to {arm}; the oracle over the same arms sends {_percent(oracles)} there"
    )


def _percent(shares: Sequence[float]) -> str:
    """``100 %``, or several where they differ."""
    written = [f"{share:.0%}".replace("%", " %") for share in shares]
    return written[0] if len(set(written)) == 1 else ", ".join(written)


def expected_per_arm(table: RoutingTable, chosen: Chosen) -> dict[str, Expected]:
    """What to expect of each arm when it is chosen: means over the queries sent to it.

    Where fewer than 20 queries were sent to an arm, the means are over all queries that have the
    arm; where there are none, the arm is left out. The quality is that of the answer, so that of a
    policy's own ranking where it merges; the latency is the arm's.
    """
    expected = {}
    for column, arm in enumerate(table.arms):
        has_arm = table.comparable & table.competes[:, column]
        sent = has_arm & (chosen.columns == column)
        enough = sent.sum() >= _ENOUGH_QUERIES
        rows = sent if enough else has_arm
        if rows.any():
            own = None if chosen.own_quality is None or not enough else chosen.own_quality[rows]
            expected[arm] = Expected(
                quality=float(answered_quality(table.quality[rows, column], own).mean()),
                latency_ms=float(table.latency_ms[rows, column].mean()),
                queries=int(rows.sum()),
            )
    return expected


def _shares(columns: NDArray[np.intp], arms: int) -> FloatArray:
    return np.bincount(columns, minlength=arms) / len(columns)
