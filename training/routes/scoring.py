"""How often a router takes the routes that a query needs, over all and per source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray
from router.policy import Plan
from training.routes.table import RouteTable


@dataclass(frozen=True)
class RouteScore:
    """Of one policy on Q queries."""

    policy: str
    queries: int
    accuracy: float
    """Share of queries for which exactly the routes needed were taken."""
    first_right: float
    """Share whose first route is among those needed: the same where every query needs one."""
    routes_taken: float
    """Mean number of routes searched for a query."""
    by_source: Mapping[str, float]
    """Accuracy on each source's queries."""
    macro: float
    """Mean of ``by_source``."""
    confusion: NDArray[np.int64]
    """(R, R) needed route × first route taken; a query that needs several counts under each."""


def taken(plans: Sequence[Plan], routes: Sequence[str]) -> tuple[BoolArray, NDArray[np.intp]]:
    """(Q, R) the routes of each plan, and (Q,) the column of its first."""
    column = {route: place for place, route in enumerate(routes)}
    chosen = np.zeros((len(plans), len(routes)), dtype=bool)
    first = np.zeros(len(plans), dtype=np.intp)
    for row, plan in enumerate(plans):
        chosen[row, [column[route] for route in plan.arms]] = True
        first[row] = column[plan.arms[0]]
    return chosen, first


def score_plans(policy: str, plans: Sequence[Plan], table: RouteTable) -> RouteScore:
    """Compare (Q,) plans with the routes that the table's queries need; Q ≥ 1."""
    chosen, first = taken(plans, table.routes)
    right = (chosen == table.needed).all(axis=1)
    by_source = {
        source: float(right[table.sources == source].mean())
        for source in sorted(set(table.sources.tolist()))
    }
    confusion = np.zeros((len(table.routes),) * 2, dtype=np.int64)
    rows, columns = np.nonzero(table.needed)
    np.add.at(confusion, (columns, first[rows]), 1)
    return RouteScore(
        policy=policy,
        queries=len(table),
        accuracy=float(right.mean()),
        first_right=float(table.needed[np.arange(len(table)), first].mean()),
        routes_taken=float(chosen.sum(axis=1).mean()),
        by_source=by_source,
        macro=float(np.mean(list(by_source.values()))),
        confusion=confusion,
    )
