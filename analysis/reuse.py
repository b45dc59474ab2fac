"""Query vectors that a policy and an arm share: where they are counted once, in words."""

from __future__ import annotations

from collections.abc import Iterable

from analysis.outcomes import REUSED
from analysis.roles import title_of
from analysis.summary import MICRO, Summary

HEADING = "encoding reused"


def reused_means(summaries: Iterable[Summary]) -> dict[str, float]:
    """Policy → the greatest mean, over the λ, of milliseconds that its arms save per query.

    Policies that save nothing at any λ are left out.
    """
    found: dict[str, float] = {}
    for one in summaries:
        mean_ms = one.means.get(REUSED, 0.0)
        if one.scope == MICRO and mean_ms > 0:
            found[one.policy] = max(mean_ms, found.get(one.policy, 0.0))
    return found


def reuse_note(summaries: Iterable[Summary]) -> str | None:
    """Say what is counted once and for whom; None where nothing is."""
    saved = reused_means(summaries)
    if not saved:
        return None
    policies = ", ".join(title_of(policy) for policy in saved)
    return (
        "Policies that read a dense arm's own encoder embed the query once in a search, and the "
        "arm takes their vector. For them the embedding counts once, in the policy's overhead: "
        "the encoding that the labels measured in the arm (encode_ms; modelled where the latency "
        f"is) is taken off, up to {max(saved.values()):.1f} ms per query on average; the column "
        f"'{HEADING}' has it at every λ. So counted: {policies}. Arms on their own, oracles and "
        "all other policies count every encoding."
    )
