"""Claims where a query's relevant documents were relevant in training, and where none was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.audit.claims import ClaimOnQueries
from analysis.audit.findings import Findings, Objection
from analysis.bootstrap import Resamples
from analysis.evaluation import BoolArray
from analysis.roles import title_of
from analysis.table import Column, Row, Table
from oracle.labels import Labels, TextArray

_FEWEST = 20
"""Queries of a side: of fewer, nothing is concluded."""
_COLUMNS = (
    Column("policy", "policy"),
    Column("over", "over"),
    Column("lam", "λ", "lam"),
    Column("seen", "a relevant document seen", "change"),
    Column("unseen", "none seen", "change"),
)


def seen_documents(labels: Labels, sides: TextArray) -> BoolArray | None:
    """(Q,) True where a relevant document was relevant to a query on another side.

    Args:
        labels: with ``relevant_ids``.
        sides: (Q,) the side of each query: its fold, or ``test`` against everything else. Queries
            of the same side don't count; an empty side is in no evaluation and counts as training.

    Returns:
        None where no relevant documents are known.
    """
    if labels.relevant_ids is None:
        return None
    known: dict[tuple[str, str], set[str]] = {}
    for dataset, side, ids in zip(labels.datasets, sides, labels.relevant_ids, strict=True):
        for one in ids or ():
            known.setdefault((dataset, one), set()).add(side)
    return np.array(
        [
            any(known[dataset, one] - {side} for one in ids or ())
            for dataset, side, ids in zip(labels.datasets, sides, labels.relevant_ids, strict=True)
        ],
        dtype=bool,
    )


def check_documents(
    claims: Sequence[ClaimOnQueries],
    seen: BoolArray | None,
    resamples: Resamples,
    confidence: float,
) -> Findings:
    """Object where a policy's claim holds only for documents that were asked about in training.

    Args:
        claims: against the best static arm.
        seen: (N,) of the evaluated queries.
        resamples: of them.
        confidence: of the intervals.
    """
    if seen is None:
        told = "Claims by documents seen or unseen: the labels don't name relevant documents."
        return Findings(remarks=(told,))
    rows: list[Row] = []
    only: dict[str, list[str]] = {}
    for claim in claims:
        sides = {
            name: claim.on(members, resamples, confidence)
            for name, members in (("seen", seen), ("unseen", ~seen))
        }
        rows.append((title_of(claim.policy), title_of(claim.over), claim.lam, *sides.values()))
        enough = all(one.n >= _FEWEST for one in sides.values())
        whole = claim.on(np.ones(len(seen), dtype=bool), resamples, confidence)
        if enough and whole.above_zero and sides["seen"].above_zero:
            unseen = sides["unseen"]
            if unseen.value is not None and not unseen.above_zero and _differ(sides, claim, seen):
                only.setdefault(claim.policy, []).append(f"{claim.lam:g}")
    objections = tuple(
        Objection(
            "documents",
            f"{title_of(policy)} at λ = {', '.join(lams)}: the gain over the best static arm comes "
            "from queries whose relevant documents were relevant to training queries; where none "
            "was, there is no clear gain. Report it on a split over documents too.",
        )
        for policy, lams in only.items()
    )
    told = f"{int(seen.sum()):,} of {len(seen):,} evaluated queries have a relevant document that "
    table = Table(
        "audit_documents",
        "Relevant documents seen in training, or not",
        _COLUMNS,
        tuple(rows),
        tuple(rows),
        f"{told}was relevant to a training query.",
    )
    return Findings(objections, (f"{told}was relevant to a training query.",), (table,))


def _differ(sides: Mapping[str, object], claim: ClaimOnQueries, seen: BoolArray) -> bool:
    """Whether seen and unseen queries differ by more than two standard errors."""
    a, b = (claim.difference[part] for part in (seen, ~seen))
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b))
    return bool(a.mean() - b.mean() > 2.0 * error)
