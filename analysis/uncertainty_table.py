"""The table of leads with an interval for every way of drawing."""

from __future__ import annotations

from analysis.bootstrap import Estimate
from analysis.columns import LAM, POLICY
from analysis.merging import CEILINGS
from analysis.results import EvaluationResults, Results
from analysis.roles import title_of
from analysis.table import Cell, Column, Row, Table
from analysis.uncertainty import COLLECTION, DOCUMENT, FEWEST_CLUSTERS, Interval, Uncertainty

SIMPLE = (
    "Strongest simple: at each λ the best on validation of the arms alone and of their fusions by "
    "reciprocal ranks and by tuned weights. "
)


def uncertainty_table(
    results: Results, evaluated: EvaluationResults, name: str, title: str
) -> Table:
    """Lead over the best static arm and headroom closed: micro, macro, and by what is drawn."""
    found = sorted(evaluated.uncertainties, key=lambda one: one.lam)
    kinds = [kind for kind in (DOCUMENT, COLLECTION) if any(kind in one.lead_by for one in found)]
    columns = [LAM, POLICY, Column("lead", "over best static", "change")]
    columns += [Column(f"lead_by_{kind}", f"by {kind}", "change") for kind in kinds]
    simple = any(one.lead_over_simple is not None for one in found)
    if simple:
        columns.append(Column("lead_over_simple", "over strongest simple", "change"))
    columns += [
        Column("lead_macro", "macro", "change"),
        Column("headroom_closed", "headroom closed", "share"),
    ]
    columns += [Column(f"headroom_closed_by_{kind}", f"by {kind}", "share") for kind in kinds]
    columns += [
        Column("headroom_closed_macro", "macro", "share"),
        Column("ceiling", "ceiling"),
        Column("n", "n", "count", shown=False),
    ]
    rows = [(one.lam, _row(one, kinds, simple)) for one in found]
    return Table(
        name,
        title,
        tuple(columns),
        tuple(row for _, row in rows),
        tuple(row for lam, row in rows if lam in results.shown_lams),
        note="In reward. Brackets: paired bootstrap intervals of "
        f"{results.settings.confidence:.0%}; the first draws queries, those headed 'by document' "
        "groups of queries that share relevant documents, 'by collection' whole datasets: how sure "
        f"a claim about other collections is. Left out with fewer than {FEWEST_CLUSTERS} groups. "
        f"{SIMPLE if simple else ''}macro: means over datasets, each counting once. {CEILINGS}",
    )


def _row(one: Uncertainty, kinds: list[str], simple: bool) -> Row:
    lead = [_drawn(one.lead, one.lead_by[kind]) for kind in kinds]
    closed = [_drawn(one.closed, one.closed_by[kind]) for kind in kinds]
    cells: list[Cell] = [one.lam, title_of(one.policy), one.lead, *lead]
    cells += [one.lead_over_simple] if simple else []
    cells.append(one.lead_macro)
    cells += [one.closed, *closed, one.closed_macro, title_of(one.ceiling), one.lead.n]
    return tuple(cells)


def _drawn(estimate: Estimate, interval: Interval) -> Estimate:
    return Estimate(estimate.value, *interval, estimate.n)
