"""Policies that send nearly every test query to one arm although the oracle doesn't."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from analysis.merging import merging_policies
from analysis.roles import ORACLE_ROUTER_ARMS, role_of, title_of
from analysis.routing_share import RoutingShare
from analysis.summary import MICRO
from analysis.table import write_number
from router.collapse import collapsed_arm


@dataclass(frozen=True, slots=True)
class Collapse:
    """One policy at one λ."""

    policy: str
    lam: float
    arm: str
    share: float
    """Of the test queries that it sends to ``arm``."""
    oracle_share: float
    """Of the same queries that the oracle over A sends there."""


def collapses(
    shares: Sequence[RoutingShare],
    pipelines: Sequence[str],
    unasked: Collection[tuple[str, float]] = (),
) -> list[Collapse]:
    """Return the collapsed policies among ``shares``, in their order.

    Baselines never count, nor do policies that merge: what they send to one arm depends on λ, and
    what they answer on the documents that several arms found. ``unasked``: policy and λ where a
    policy isn't asked, and so doesn't choose.
    """
    merging = set(merging_policies(shares))
    overall = [one for one in shares if one.scope == MICRO and one.n]
    oracle = {one.lam: one.shares for one in overall if one.policy == ORACLE_ROUTER_ARMS}
    found = []
    for one in overall:
        if role_of(one.policy) != "routed" or one.lam not in oracle or one.policy in merging:
            continue
        if (one.policy, one.lam) in unasked:
            continue
        top = collapsed_arm(one.shares, oracle[one.lam])
        if top is not None:
            arm, of_oracle = pipelines[top], oracle[one.lam][top]
            found.append(Collapse(one.policy, one.lam, arm, one.shares[top], of_oracle))
    return found


def collapse_sentences(found: Sequence[Collapse]) -> tuple[str, ...]:
    """A sentence per policy and arm, λ together."""
    grouped: dict[tuple[str, str], list[Collapse]] = {}
    for one in found:
        grouped.setdefault((one.policy, one.arm), []).append(one)
    return tuple(_sentence(policy, arm, same) for (policy, arm), same in grouped.items())


def _sentence(policy: str, arm: str, same: Sequence[Collapse]) -> str:
    lams = ", ".join(f"{one.lam:g}" for one in same)
    return (
        f"{title_of(policy)} has collapsed at λ = {lams}: it sends "
        f"{_shares([one.share for one in same])} of the test queries to {arm}; the oracle over A "
        f"sends {_shares([one.oracle_share for one in same])} there."
    )


def _shares(shares: Sequence[float]) -> str:
    written = [write_number("share", share) for share in shares]
    return written[0] if len(set(written)) == 1 else ", ".join(written)
