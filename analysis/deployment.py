"""What to deploy: for each latency budget and each λ the best policy, picked on validation.

Scored on test queries, with the best single arm and the strongest simple baseline beside it, each
picked the same way. Where the decisions hold no validation queries it is picked on the test queries
themselves, which flatters it; the table says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate
from analysis.mean_table import MeanTable
from analysis.outcomes import LATENCY, REWARD, Outcome, Scores
from analysis.roles import role_of
from router.policy_names import STRONGEST_SIMPLE

MOST_BUDGETS = 6


@dataclass(frozen=True, slots=True)
class Deployed:
    """One policy at one λ, picked on validation; both estimates are of test queries."""

    policy: str
    lam: float
    quality: Estimate
    latency_ms: Estimate


@dataclass(frozen=True, slots=True)
class Deployment:
    """What answers one wish. Exactly one of ``budget_ms`` and ``lam`` is given."""

    budget_ms: float | None
    lam: float | None
    best: Deployed
    single: Deployed
    """The best single arm."""
    simple: Deployed | None
    """The strongest simple baseline; None where it wasn't fitted, or nothing of it is as fast."""


def latency_budgets(latency_ms: Collection[float]) -> list[float]:
    """1, 2 or 5 times powers of ten, from the fastest arm's mean (arms,) up to the slowest's.

    Thinned evenly to ``MOST_BUDGETS``, the smallest and the greatest kept.
    """
    low, high = min(latency_ms), max(latency_ms)
    powers = range(int(np.floor(np.log10(max(low, 1e-6)))), int(np.ceil(np.log10(max(high, 1e-6)))))
    ladder = [digit * 10.0**power for power in (*powers, powers.stop) for digit in (1, 2, 5)]
    first = next(place for place, one in enumerate(ladder) if one >= low)
    last = next((place for place, one in enumerate(ladder) if one >= high), len(ladder) - 1)
    kept = ladder[first : last + 1]
    places = np.linspace(0, len(kept) - 1, min(MOST_BUDGETS, len(kept))).round().astype(int)
    return [float(f"{kept[place]:.6g}") for place in places]


def deployments(
    means: MeanTable, picked_on: Scores, served: Collection[str] | None, lams: Collection[float]
) -> tuple[Deployment, ...]:
    """Return a row per budget, smallest first, then one per λ.

    A budget whose answers are those of the budget before is left out.

    Args:
        means: of the test queries.
        picked_on: the validation queries, or the test queries where there are none.
        served: policies of the router's artifact; None: all that were decided.
        lams: the λ that have a row.
    """
    test, measure = means.scores, means.scores.evaluation.primary_measure

    def candidate(outcome: Outcome) -> bool:
        role, name = role_of(outcome.policy), outcome.policy
        known = role == "static" or served is None or name in served
        may = role in ("static", "routed") or name == STRONGEST_SIMPLE
        tested = test.get(name, outcome.lam)
        everywhere = tested is not None and tested.evaluated.all() and outcome.evaluated.all()
        return bool(known and may and everywhere)

    candidates = [one for lam in picked_on.lams for one in picked_on.at(lam) if candidate(one)]
    arms = [one for one in candidates if role_of(one.policy) == "static"]
    if not arms:
        return ()
    value = {
        (id(one), name): float(one.values(name).mean())
        for one in candidates
        for name in (measure, LATENCY, REWARD)
    }

    def deployed(one: Outcome) -> Deployed:
        tested = test.get(one.policy, one.lam)
        assert tested is not None
        common = means.common((tested,))
        quality, latency = (means.mean(tested, name, common) for name in (measure, LATENCY))
        return Deployed(
            one.policy,
            one.lam,
            means.estimate(quality.value, quality.replicates, common.n),
            means.estimate(latency.value, latency.replicates, common.n),
        )

    def picked(
        allowed: Callable[[Outcome], bool], wanted: str
    ) -> tuple[Deployed, Deployed, Deployed | None]:
        def best(among: list[Outcome]) -> Outcome | None:
            def key(one: Outcome) -> tuple[float, float]:
                return round(value[id(one), wanted], 9), -value[id(one), LATENCY]

            return max(filter(allowed, among), key=key, default=None)

        first, single = best([*arms, *candidates]), best(arms)
        simple = best([one for one in candidates if one.policy == STRONGEST_SIMPLE])
        assert first is not None and single is not None
        return deployed(first), deployed(single), None if simple is None else deployed(simple)

    rows: list[Deployment] = []
    for budget in latency_budgets([value[id(one), LATENCY] for one in arms]):
        found = picked(lambda one, most=budget: value[id(one), LATENCY] <= most, measure)  # type: ignore[misc]
        if not rows or found != (rows[-1].best, rows[-1].single, rows[-1].simple):
            rows.append(Deployment(budget, None, *found))
    for lam in lams:
        found = picked(lambda one, at=lam: one.lam == at, REWARD)  # type: ignore[misc]
        rows.append(Deployment(None, lam, *found))
    return tuple(rows)
