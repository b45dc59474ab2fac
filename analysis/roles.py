"""What each policy is in a comparison, and the order in which reports list them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from router.policy_names import (
    BEST_STATIC,
    BEST_STATIC_PER_DATASET,
    RANDOM_SAME_MIX,
    STATIC_PREFIX,
    STRONGEST_SIMPLE,
    static_name,
)

Role = Literal["static", "baseline", "routed", "oracle"]

BEST_STATIC_ON_TEST = "best_static_on_test"
ORACLE_ROUTER_ARMS = "oracle(A)"
ORACLE_PIPELINES = "oracle(P)"
IDEAL_ORDER = "ideal order of "
"""Begins the name of the ceiling of a policy that ranks anew what its arms found."""

_BASELINES = (
    BEST_STATIC,
    BEST_STATIC_ON_TEST,
    BEST_STATIC_PER_DATASET,
    STRONGEST_SIMPLE,
    RANDOM_SAME_MIX,
)
_TITLES = {
    BEST_STATIC: "best static",
    BEST_STATIC_ON_TEST: "best static, picked on test",
    BEST_STATIC_PER_DATASET: "best static per dataset",
    STRONGEST_SIMPLE: "strongest simple baseline",
    RANDOM_SAME_MIX: "random, same mix",
    "reciprocal_ranks": "reciprocal ranks",
    "tuned_fusion": "tuned fusion",
    "tuned_fusion_prior": "tuned fusion + document prior",
    "knn": "k nearest neighbours",
    "arabzadeh": "Arabzadeh et al. 2021",
    "multi_label": "multi-label",
    "ensemble_confidence": "ensemble, first sure",
    "ensemble_majority": "ensemble, majority",
    ORACLE_ROUTER_ARMS: "oracle over A",
    ORACLE_PIPELINES: "oracle over P",
}


def role_of(policy: str) -> Role:
    """Return what ``policy`` is: an arm, a baseline made of arms, a router, or the oracle."""
    if policy.startswith(STATIC_PREFIX):
        return "static"
    if policy.startswith(("oracle", IDEAL_ORDER)):
        return "oracle"
    return "baseline" if policy in _BASELINES else "routed"


def title_of(policy: str) -> str:
    """Return how reports write ``policy``."""
    if policy.startswith(STATIC_PREFIX):
        return policy[len(STATIC_PREFIX) :]
    if policy.startswith(IDEAL_ORDER):
        return "ideal order of its candidates"
    return _TITLES.get(policy, policy)


def in_report_order(policies: Iterable[str], pipelines: Sequence[str]) -> tuple[str, ...]:
    """Sort policies: static arms as in ``pipelines``, baselines, routers by name, oracles."""
    roles: tuple[Role, ...] = ("static", "baseline", "routed", "oracle")
    statics = [static_name(arm) for arm in pipelines]

    def place(policy: str) -> tuple[int, int, str]:
        role = role_of(policy)
        listed = {"static": statics, "baseline": list(_BASELINES)}.get(role, [])
        rank = listed.index(policy) if policy in listed else len(listed)
        return roles.index(role), rank, policy

    return tuple(sorted(set(policies), key=place))
