"""When a router has stopped choosing."""

from __future__ import annotations

from collections.abc import Sequence

COLLAPSE_SHARE = 0.95


def collapsed_arm(shares: Sequence[float], oracle_shares: Sequence[float]) -> int | None:
    """Column of the arm that a policy sends nearly everything to although the oracle doesn't.

    Nearly everything: at least 95 % of the queries, where the oracle over the same arms sends
    fewer there. None where the policy still chooses, or is right not to.

    Args:
        shares: per arm, of the queries that it answers; sums to 1.
        oracle_shares: the same of the oracle.
    """
    top = max(range(len(shares)), key=lambda column: (shares[column], -column), default=None)
    if top is None or not shares[top] >= COLLAPSE_SHARE > oracle_shares[top]:
        return None
    return top
