"""What lies behind the means of the test split: groups of queries, single arms, single queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from analysis.agreement import Agreement, arm_agreement
from analysis.bootstrap import Estimate, Resamples
from analysis.calibration import Calibration, Expected, calibration
from analysis.evaluation import FloatArray
from analysis.lost_queries import LostQuery, lost_queries
from analysis.outcomes import Outcome, Scores
from analysis.query_facts import QueryFacts
from analysis.query_groups import (
    DENSITY,
    PAGE_KIND,
    Grouping,
    group_means,
    groupings,
)
from analysis.reward_map import RewardMap, reward_map
from analysis.roles import ORACLE_ROUTER_ARMS, role_of
from analysis.routing_share import RoutingShare, share_of
from oracle.labels import Labels
from router.artifact import Defaults
from router.policy_names import BEST_STATIC


@dataclass(frozen=True, eq=False)
class ReportInputs:
    """What a report reads beside the labels' and decisions' numbers; all of it may be absent."""

    facts: QueryFacts = field(default_factory=QueryFacts)
    expected: Expected = field(default_factory=dict)
    closed: frozenset[float] = frozenset()
    """λ where the router isn't asked, and the best single arm answers."""
    defaults: Defaults | None = None
    """The policies that answer where none is named; None: the router reported on."""
    served: frozenset[str] | None = None
    """Policies of the router's artifact; None: unknown."""


@dataclass(frozen=True, slots=True)
class GroupMean:
    """The mean of one policy's metric in one group of queries."""

    grouping: str
    group: str
    policy: str
    lam: float
    estimate: Estimate


@dataclass(frozen=True, eq=False)
class Details:
    """Computed on the test split."""

    groupings: Mapping[str, Grouping]
    group_quality: tuple[GroupMean, ...]
    """By visual density and kind of page, where labels know them, at the first shown λ.

    Over the queries that every arm has: else arms would be compared on other collections.
    """
    group_regret: tuple[GroupMean, ...]
    """Of the router and the best static arm, by every grouping, at every shown λ."""
    group_shares: Mapping[str, tuple[RoutingShare, ...]]
    """Grouping → shares of router and oracle in each group at every λ."""
    reward_maps: tuple[RewardMap, ...]
    """Of the oracle over A and the router, at the last shown λ."""
    agreement: Agreement
    calibration: Calibration | None
    lost_lam: float
    lost: tuple[LostQuery, ...]


def details(
    labels: Labels,
    scores: Scores,
    router: str,
    shown_lams: Sequence[float],
    beside: ReportInputs,
    resamples: Resamples,
    confidence: float,
) -> Details:
    """Look into the test split's outcomes of ``router``, the arms and the oracle."""
    found = groupings(scores.evaluation, beside.facts)
    pages = [found[name] for name in (DENSITY, PAGE_KIND) if name in found]
    lost_lam = shown_lams[0]
    ours, oracle = scores.get(router, lost_lam), scores.get(ORACLE_ROUTER_ARMS, lost_lam)
    own = [one for lam in scores.lams if (one := scores.get(router, lam)) is not None]
    return Details(
        groupings=found,
        group_quality=tuple(_quality(scores, router, lost_lam, pages, resamples, confidence)),
        group_regret=tuple(
            _regret(scores, router, shown_lams, list(found.values()), resamples, confidence)
        ),
        group_shares={one.name: tuple(_shares(scores, router, one)) for one in pages},
        reward_maps=tuple(
            reward_map(outcome)
            for policy in (ORACLE_ROUTER_ARMS, router)
            if (outcome := scores.get(policy, shown_lams[-1])) is not None
        ),
        agreement=arm_agreement(scores.evaluation),
        calibration=calibration(own, beside.expected, resamples, confidence),
        lost_lam=lost_lam,
        lost=tuple(lost_queries(labels, ours, oracle)) if ours and oracle else (),
    )


def _quality(
    scores: Scores,
    router: str,
    lam: float,
    groupings: Sequence[Grouping],
    resamples: Resamples,
    confidence: float,
) -> list[GroupMean]:
    measure = scores.evaluation.primary_measure
    outcomes = [
        one
        for one in scores.at(lam)
        if role_of(one.policy) == "static" or one.policy in (router, ORACLE_ROUTER_ARMS)
    ]
    everywhere = np.logical_and.reduce([one.evaluated for one in outcomes])
    columns = [np.where(everywhere, one.values(measure), np.nan) for one in outcomes]
    return _means_in(groupings, outcomes, columns, resamples, confidence)


def _regret(
    scores: Scores,
    router: str,
    lams: Sequence[float],
    groupings: Sequence[Grouping],
    resamples: Resamples,
    confidence: float,
) -> list[GroupMean]:
    pairs = [
        (outcome, oracle)
        for lam in lams
        if (oracle := scores.get(ORACLE_ROUTER_ARMS, lam)) is not None
        for policy in (router, BEST_STATIC)
        if (outcome := scores.get(policy, lam)) is not None
    ]
    columns = [oracle.reward - outcome.reward for outcome, oracle in pairs]
    return _means_in(groupings, [one for one, _ in pairs], columns, resamples, confidence)


def _means_in(
    groupings: Sequence[Grouping],
    outcomes: Sequence[Outcome],
    columns: Sequence[FloatArray],
    resamples: Resamples,
    confidence: float,
) -> list[GroupMean]:
    found = []
    for grouping in groupings:
        means = group_means(grouping, columns, resamples, confidence)
        for outcome, estimates in zip(outcomes, means, strict=True):
            found += [
                GroupMean(grouping.name, group, outcome.policy, outcome.lam, estimate)
                for group, estimate in zip(grouping.groups, estimates, strict=True)
            ]
    return found


def _shares(scores: Scores, router: str, grouping: Grouping) -> list[RoutingShare]:
    return [
        share_of(outcome, group, grouping.codes == code)
        for policy in (router, ORACLE_ROUTER_ARMS)
        for lam in scores.lams
        if (outcome := scores.get(policy, lam)) is not None
        for code, group in enumerate(grouping.groups)
    ]
