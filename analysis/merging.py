"""Policies that answer with their own ranking of what several arms found, in words."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.roles import title_of
from analysis.routing_share import RoutingShare

PASSES_ORACLE = (
    "The oracle is the best single arm per query; a policy that merges what several arms found may "
    "pass it."
)
CEILINGS = (
    "The ceiling of a policy that answers with an arm's list is the oracle over A, the best single "
    "arm per query; that of one that merges is the ideal order of the candidates that its arms "
    "found, in the time it took."
)


def merging_policies(shares: Sequence[RoutingShare]) -> tuple[str, ...]:
    """Policies that merge for some query at some λ, in the order of ``shares``."""
    return tuple(dict.fromkeys(one.policy for one in shares if one.merged > 0.0))


def merging_note(shares: Sequence[RoutingShare]) -> str | None:
    """Say which policies merge, what it costs, and what follows; None where none does."""
    named = _named(shares)
    if not named:
        return None
    return (
        f"Policies that merge run arms by λ and answer with their own ranking of what these found: "
        f"{named}. The quality of that ranking counts, and the latency of every arm run. "
        f"{PASSES_ORACLE} Their regret can then be less than 0. Their headroom is held against the "
        "ideal order of what their arms found."
    )


def share_note(shares: Sequence[RoutingShare]) -> str:
    """Say how merged answers are counted; empty where there are none."""
    named = _named(shares)
    if not named:
        return ""
    return (
        f"Policies that merge ({named}) answer with their own ranking of what several arms found; "
        "such a query counts under the arm that would have answered alone, and again under "
        "'of these merged'."
    )


def _named(shares: Sequence[RoutingShare]) -> str:
    return ", ".join(title_of(policy) for policy in merging_policies(shares))
