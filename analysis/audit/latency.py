"""How many latencies were timed, and whether a claim rests on those that were modelled."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from analysis.audit.claims import ClaimOnQueries
from analysis.audit.findings import Findings, Objection
from analysis.evaluation import BoolArray
from analysis.query_places import QueryPlaces
from analysis.table import Column, Table
from oracle.labels import Labels

_SHIFT = 0.001
"""Of a mean difference in reward: a smaller one changes no claim."""


def timed_queries(folder: Path, labels: Labels) -> tuple[BoolArray, float]:
    """(Q,) queries of which every arm was timed, and the share of latencies that were modelled."""
    table = pq.read_table(
        folder / "labels.parquet", columns=["dataset", "query_id", "latency_modelled"]
    )
    modelled = np.array([bool(one) for one in table["latency_modelled"].to_pylist()])
    rows = QueryPlaces(labels).rows_of(table["dataset"], table["query_id"])
    timed = np.ones(len(labels.query_ids), dtype=bool)
    timed[rows[modelled & (rows >= 0)]] = False
    return timed, float(modelled.mean()) if len(modelled) else 0.0


def check_latency(
    modelled_share: float, timed: BoolArray, claims: Sequence[ClaimOnQueries]
) -> Findings:
    """Compare every claim on all queries with the same on timed queries alone.

    Args:
        modelled_share: of the labels' latencies.
        timed: (N,) of the evaluated queries, those of which every arm was timed.
        claims: differences in reward, query by query.
    """
    if modelled_share == 0.0:
        return Findings(remarks=("Every latency was timed; none is modelled.",))
    columns = (
        Column("policy", "policy"),
        Column("over", "over"),
        Column("lam", "λ", "lam"),
        Column("all", "all queries", "change"),
        Column("timed", "timed queries", "change"),
        Column("moved_by", "moved by", "change"),
    )
    rows = []
    for claim in claims:
        if claim.lam == 0.0 or not timed.any():  # latency doesn't count, or nothing to compare
            continue
        whole, part = float(claim.difference.mean()), float(claim.difference[timed].mean())
        rows.append((claim.policy, claim.over, claim.lam, whole, part, part - whole))
    told = (
        f"{modelled_share:.1%} of the latencies are modelled, not timed; {int(timed.sum()):,} of "
        f"{len(timed):,} evaluated queries were timed on every arm."
    ).replace("%", " %")
    turned = [row for row in rows if row[3] * row[4] < 0 and abs(row[5]) > _SHIFT]
    named = "; ".join(f"{row[0]} over {row[1]} at λ = {row[2]:g}" for row in turned[:3])
    moved = f" The sign of {len(turned)} claims turns on them: {named}." if turned else ""
    largest = max((abs(row[5]) for row in rows), default=0.0)
    reach = f" On timed queries alone no claim moves by more than {largest:.4f}." if rows else ""
    table = Table("audit_latency", "Claims on timed queries alone", columns, tuple(rows), ())
    return Findings(
        (Objection("latency", f"{told}{moved or reach}"),),
        (),
        (table,) if rows else (),
    )
