"""Learned policies against the best static arm and against simple fusions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from analysis.audit.claims import STRONGEST, ClaimOnQueries, claims_of, lams_of, strongest_simple
from analysis.audit.findings import Findings, Objection
from analysis.bootstrap import Estimate, Resamples
from analysis.outcomes import Outcome
from analysis.roles import BEST_STATIC, role_of, title_of
from analysis.table import Column, Row, Table

_COLUMNS = (
    Column("policy", "policy"),
    Column("lam", "λ", "lam"),
    Column("reward", "reward", "quality"),
    Column("over_best_static", "over best static", "change"),
    Column("strongest", "strongest simple baseline"),
    Column("over_strongest", "over it", "change"),
)


def check_baselines(
    outcomes: Mapping[tuple[str, float], Outcome],
    router: str | None,
    resamples: Resamples,
    confidence: float,
) -> Findings:
    """Object where a claim over the best static arm doesn't hold over a simple fusion.

    Args:
        outcomes: (policy, λ) → what it came to on the evaluated queries.
        router: the default policy, whose claims are objected to first; None without decisions.
        resamples: of the evaluated queries.
        confidence: of the intervals.
    """
    rows: list[Row] = []
    objections = []
    learned = sorted({policy for policy, _ in outcomes if role_of(policy) == "routed"})
    for lam in lams_of(outcomes):
        strongest, static = strongest_simple(outcomes, lam), outcomes.get((BEST_STATIC, lam))
        if strongest is None or static is None:
            continue
        everyone = np.ones(len(static.evaluation), dtype=bool)
        for policy in learned:
            if (policy, lam) not in outcomes:
                continue
            reward = outcomes[policy, lam].reward
            over = {
                name: ClaimOnQueries(policy, name, lam, reward - other.reward).on(
                    everyone, resamples, confidence
                )
                for name, other in ((BEST_STATIC, static), (STRONGEST, strongest))
            }
            rows.append(
                (
                    title_of(policy), lam, float(np.nanmean(reward)), over[BEST_STATIC],
                    title_of(strongest.policy), over[STRONGEST],
                )
            )  # fmt: skip
            if policy == router and over[BEST_STATIC].below_zero:
                objections.append(
                    f"At λ = {lam:g} the default router is behind always running the best single "
                    f"arm: {_told(over[BEST_STATIC])}."
                )
            simple = strongest.policy == policy
            if not simple and over[BEST_STATIC].above_zero and not over[STRONGEST].above_zero:
                objections.append(
                    f"At λ = {lam:g} {title_of(policy)} is ahead of the best static arm "
                    f"({_told(over[BEST_STATIC])}), but not clearly of "
                    f"{title_of(strongest.policy)} ({_told(over[STRONGEST])})."
                )
    note = (
        "The strongest simple baseline is the best, on these very queries, of the best static arm "
        "and of fusions of a few weights."
    )
    table = Table(
        "audit_baselines", "Against simple baselines", _COLUMNS, tuple(rows), tuple(rows), note
    )
    return Findings(
        tuple(Objection("baselines", one) for one in objections),
        () if rows else ("No learned policy was decided: no claim to compare with a baseline.",),
        (table,) if rows else (),
    )


def _told(estimate: Estimate) -> str:
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{estimate.value:+.4f} [{estimate.low:+.4f}, {estimate.high:+.4f}]".replace("-", "−")


__all__ = ["check_baselines", "claims_of"]
