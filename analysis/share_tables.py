"""Tables of routing: which share of queries each arm answers."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.columns import LAM, POLICY
from analysis.merging import merging_policies, share_note
from analysis.results import Results
from analysis.roles import ORACLE_ROUTER_ARMS, title_of
from analysis.routing_share import RoutingShare
from analysis.summary import MICRO
from analysis.table import Column, Row, Table


def share_table(results: Results) -> Table:
    """Share of queries that each policy sends to each arm."""
    shown = [
        one
        for one in results.test.shares
        if one.scope == MICRO and one.policy in (results.router, ORACLE_ROUTER_ARMS)
    ]
    return _table(
        results,
        "routing_share",
        "Share of test queries answered by each arm",
        "queries of",
        results.test.shares,
        shown,
    )


def group_share_table(results: Results, grouping: str, name: str) -> Table:
    """Share of queries that router and oracle send to each arm, by group of queries."""
    shares = results.details.group_shares[grouping]
    shown = [one for one in shares if one.lam in results.shown_lams]
    title = f"Share of test queries answered by each arm, by {grouping}"
    return _table(results, name, title, grouping, shares, shown)


def _table(
    results: Results,
    name: str,
    title: str,
    scope: str,
    shares: Sequence[RoutingShare],
    shown: Sequence[RoutingShare],
) -> Table:
    columns = (
        LAM,
        POLICY,
        Column("scope", scope),
        Column("n", "n", "count"),
        *(Column(f"share_{arm}", arm, "share") for arm in results.labels.pipelines),
    )
    merges = bool(merging_policies(shares))
    if merges:
        columns += (Column("merged", "of these merged", "share"),)
    rows, shown_rows = (tuple(_row(one, merges) for one in some) for some in (shares, shown))
    return Table(name, title, columns, rows, shown_rows, share_note(shares))


def _row(share: RoutingShare, merges: bool) -> Row:
    scope = "all datasets" if share.scope == MICRO else share.scope
    merged = (share.merged,) if merges else ()
    return (share.lam, title_of(share.policy), scope, share.n, *share.shares, *merged)
