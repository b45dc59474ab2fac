"""What every fitted policy decides on labelled queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.overhead import measure_overhead
from router.policies.encoder import EncoderPolicy
from router.policy import Policy
from training.baselines import Columns, choose, same_mix
from training.decision_table import DecisionTable
from training.fitting import BestStatic, Rows, Workshop
from training.table import RoutingTable

ROUTER = "router"
ROUTER_LORA = "router_lora"
BEST_STATIC = "best_static"
BEST_STATIC_PER_DATASET = "best_static_per_dataset"
RANDOM_SAME_MIX = "random_same_mix"
STATIC_PREFIX = "static:"

Overheads = Mapping[str, FloatArray]
"""Policy → (Q,) milliseconds for every labelled query."""


@dataclass(frozen=True)
class Fitted:
    """What was fitted on one side of a split."""

    learned: Mapping[str, Policy]
    """``router``, ``router_lora``, ``tfidf``: those that there are."""
    best_static: BestStatic
    over_embeddings: frozenset[str]
    """Those that read the shared embeddings of the frozen encoder."""


def add_static_arms(
    decisions: DecisionTable, every: RoutingTable, splits: NDArray[np.object_]
) -> None:
    """Add ``static:<arm>`` for every arm of P; no decision where the dataset lacks it."""
    for column, arm in enumerate(every.arms):
        columns = np.where(every.competes[:, column], column, -1)
        ones = np.ones(len(every))
        decisions.add(f"{STATIC_PREFIX}{arm}", None, every, splits, columns, ones)


def add_decisions(
    decisions: DecisionTable,
    shop: Workshop,
    fitted: Fitted,
    rows: Rows,
    splits: NDArray[np.object_],
    overheads: Overheads,
) -> dict[tuple[str, float], Columns]:
    """Add what the fitted policies and the baselines decide on ``rows``.

    ``splits`` (rows,) names the split of each in this evaluation. Returns, by learned policy and
    λ, the (rows,) columns of A that were chosen.
    """
    action, every = shop.action.rows(rows), shop.every.rows(rows)
    chosen = {}
    for name, policy in fitted.learned.items():
        for lam in policy.lams or ():
            probabilities = _probabilities(fitted, name, shop, rows, lam)
            columns = choose(probabilities, action.competes)
            probability = _renormalised(probabilities, action, columns)
            overhead_ms = overheads[name][rows]
            decisions.add(name, lam, action, splits, columns, probability, overhead_ms)
            chosen[name, lam] = columns
            if name == ROUTER:
                drawn = _same_mix_per_split(columns, action, splits, (shop.settings.seed, lam))
                decisions.add(RANDOM_SAME_MIX, lam, action, splits, *drawn)
    for lam in shop.settings.lams:
        best = fitted.best_static
        ones = np.ones(len(rows))
        decisions.add(BEST_STATIC, lam, every, splits, best.choose(lam, every), ones)
        per_dataset = best.choose_per_dataset(lam, every)
        decisions.add(BEST_STATIC_PER_DATASET, lam, every, splits, per_dataset, ones)
    return chosen


def measured_overheads(shop: Workshop, policy: Policy) -> FloatArray:
    """(Q,) milliseconds of deciding each labelled query, alone and warm.

    Timed on test queries (on all queries where there is no test split), evenly spread and at most
    ``overhead_queries`` of them, at the policy's lowest λ: heads at other λ cost the same. Every
    other query gets the median.
    """
    table, wanted = shop.action, shop.settings.overhead_queries
    candidates = np.flatnonzero(table.splits == "test")
    candidates = candidates if len(candidates) else np.arange(len(table))
    spread = np.linspace(0, len(candidates) - 1, min(wanted, len(candidates)))
    rows = candidates[np.unique(spread.round().astype(np.intp))]
    lam = policy.lams[0] if policy.lams else 0.0
    timed_ms = measure_overhead(policy, table.texts[rows].tolist(), lam)
    overhead_ms = np.full(len(table), np.median(timed_ms))
    overhead_ms[rows] = timed_ms
    return overhead_ms


def _probabilities(fitted: Fitted, name: str, shop: Workshop, rows: Rows, lam: float) -> FloatArray:
    policy = fitted.learned[name]
    if isinstance(policy, EncoderPolicy) and name in fitted.over_embeddings:
        return policy.probabilities_from(shop.embedded[rows], lam)
    return policy.probabilities(shop.action.texts[rows].tolist(), lam)


def _renormalised(probabilities: FloatArray, action: RoutingTable, columns: Columns) -> FloatArray:
    """(Q,) probability of the chosen arm among those the dataset has."""
    mass = np.where(action.competes, probabilities, 0.0).sum(axis=1)
    taken = probabilities[np.arange(len(columns)), columns]
    return np.divide(taken, mass, out=np.ones(len(columns)), where=mass > 0)


def _same_mix_per_split(
    columns: Columns,
    action: RoutingTable,
    splits: NDArray[np.object_],
    seed: tuple[int, float],
) -> tuple[Columns, FloatArray]:
    """Draw with the router's mix on the same split, so that only knowing the query differs."""
    drawn, probability = np.empty_like(columns), np.empty(len(columns))
    for number, split in enumerate(sorted(set(splits))):
        here = splits == split
        draw_seed = (seed[0], round(seed[1] * 1e9), number)
        drawn[here], probability[here] = same_mix(columns[here], action.competes[here], draw_seed)
    return drawn, probability
