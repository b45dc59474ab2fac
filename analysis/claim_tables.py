"""Tables of the claim: the router beside every arm, and beside every other policy."""

from __future__ import annotations

from analysis.claims import Claim, OperatingPoint
from analysis.columns import LAM
from analysis.headline import claim_answer
from analysis.results import Results
from analysis.table import Cell, Column, Row, Table


def claim_table(results: Results) -> Table:
    """Each static arm: is there a λ at which the router is more accurate and faster?"""
    columns = (
        Column("router", "router", shown=False),
        Column("arm", "static arm"),
        Column("answer", "router ahead?"),
        LAM,
        Column("router_quality", "router", "quality"),
        Column("arm_quality", "arm", "quality"),
        Column("quality_gain", f"{results.labels.primary_measure} gained", "change"),
        Column("router_latency_ms", "router ms", "ms"),
        Column("arm_latency_ms", "arm ms", "ms"),
        Column("latency_gain_ms", "ms saved", "change_ms"),
        Column("speed_up", "faster", "times"),
        Column("lams_dominating", "λ that hold"),
        Column("lams_certain", "λ, both intervals clear of 0", shown=False),
        Column("n", "n", "count"),
    )
    rows = [(claim, _claim_row(claim)) for claim in results.test.claims]
    return Table(
        "claims",
        f"For each static arm: is {results.router} at some λ more accurate and faster?",
        columns,
        tuple(row for _, row in rows),
        tuple(row for claim, row in rows if claim.router == results.router),
        note="Ahead: more accurate and faster, both intervals clear of 0. λ is the one whose gains "
        "are surest, then largest, picked on these test queries. Where there is none, the row "
        "shows the most accurate λ that is faster, or else the fastest. Brackets: paired bootstrap "
        f"intervals of {results.settings.confidence:.0%}.",
        latex=True,
    )


def _claim_row(claim: Claim) -> Row:
    point = claim.point or claim.nearest
    answer = claim_answer(claim)
    return (
        claim.router,
        claim.arm,
        answer,
        *(_point_cells(point) if point else (None,) * 8),
        _lams(claim.lams_dominating),
        _lams(claim.lams_certain),
        point.quality_gain.n if point else 0,
    )


def _point_cells(point: OperatingPoint) -> tuple[Cell, ...]:
    return (
        point.lam,
        point.router_quality,
        point.arm_quality,
        point.quality_gain,
        point.router_latency_ms,
        point.arm_latency_ms,
        point.latency_gain_ms,
        point.speed_up,
    )


def _lams(lams: tuple[float, ...]) -> str:
    return ", ".join(f"{lam:g}" for lam in lams) or "none"
