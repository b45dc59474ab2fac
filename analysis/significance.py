"""The planned comparisons: the router against every arm and baseline, in quality and latency."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from analysis.outcomes import LATENCY, Outcome, Scores
from analysis.paired_test import PairedTest, holm, paired_test
from analysis.roles import BEST_STATIC_ON_TEST, role_of


@dataclass(frozen=True, slots=True)
class TestedDifference:
    """The router minus one policy at one λ, in one metric."""

    policy: str
    lam: float
    metric: str
    mean_difference: float
    result: PairedTest
    holm_p: float
    """Over all comparisons of this metric."""


@dataclass(frozen=True, slots=True)
class Significance:
    """All planned comparisons, and those that were refused."""

    tests: tuple[TestedDifference, ...]
    missing: Mapping[str, int]
    """Policy that was refused → queries on which it has no result."""


def significance(scores: Scores, router: str) -> Significance:
    """Test the router at every λ against every other policy but oracles; Holm per metric.

    Both sides must have all the evaluation's queries: a policy with missing results is refused by
    name. Queries on which an arm failed have already left the evaluation for all arms.
    """
    planned: list[tuple[Outcome, Outcome]] = []
    missing: dict[str, int] = {}
    for lam in scores.lams:
        ours = scores.get(router, lam)
        for theirs in scores.at(lam) if ours is not None else ():
            if theirs.policy in (router, BEST_STATIC_ON_TEST) or role_of(theirs.policy) == "oracle":
                continue
            assert ours is not None
            incomplete = next((one for one in (ours, theirs) if not one.evaluated.all()), None)
            if incomplete is None:
                planned.append((ours, theirs))
            else:
                missing[incomplete.policy] = int((~incomplete.evaluated).sum())
    tests: list[TestedDifference] = []
    for metric in (scores.evaluation.primary_measure, LATENCY):
        tests += _corrected([_test(ours, theirs, metric) for ours, theirs in planned])
    return Significance(tuple(tests), missing)


def _test(ours: Outcome, theirs: Outcome, metric: str) -> TestedDifference:
    a, b = ours.values(metric), theirs.values(metric)
    result = paired_test(a, b)
    difference = float(a.mean() - b.mean())
    return TestedDifference(theirs.policy, ours.lam, metric, difference, result, result.p_value)


def _corrected(tests: list[TestedDifference]) -> list[TestedDifference]:
    adjusted = holm([one.result.p_value for one in tests])
    return [replace(one, holm_p=p) for one, p in zip(tests, adjusted, strict=True)]
