"""How sure a lead is: by query, by document, by collection; over queries and over datasets.

The bootstrap over queries takes them for independent. Questions about the same documents aren't,
nor are those of one collection: a claim about other collections is as sure as collections are many.
So every policy's lead over the best static arm, and the headroom it closes, stands here with one
interval for each way of drawing. Reference: Davison & Hinkley, Bootstrap Methods and their
Application (1997), section 3.8: clusters are drawn with replacement, and all their queries with
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.bootstrap import Estimate, FloatArray, Resamples, interval
from analysis.evaluation import BoolArray, Evaluation, IntArray
from analysis.headroom import (
    SMALLEST_HEADROOM,
    closed_interval,
    headroom_closed,
    macro_mean,
    own_triples,
)
from analysis.mean_table import MeanTable
from analysis.outcomes import REWARD, Outcome
from oracle.labels import Labels
from router.policy_names import STRONGEST_SIMPLE

DOCUMENT = "document"
COLLECTION = "collection"
FEWEST_CLUSTERS = 5
"""With fewer, resampling them says nothing: no interval."""

Interval = tuple[float | None, float | None]


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """One policy's lead over the best static arm at one λ, in reward."""

    policy: str
    lam: float
    ceiling: str
    """What its headroom is held against."""
    lead: Estimate
    """Policy − best static, over queries; its interval is by query."""
    lead_macro: float
    """The same of means over datasets, each counting once."""
    closed: Estimate
    closed_macro: float | None
    lead_over_simple: Estimate | None
    """Policy − strongest simple baseline, over queries; None where there is no such baseline."""
    lead_by: Mapping[str, Interval]
    """``document`` or ``collection`` → the lead's interval when these are drawn."""
    closed_by: Mapping[str, Interval]


def clusterings(labels: Labels, evaluation: Evaluation) -> dict[str, IntArray]:
    """What is drawn → (N,) the cluster of each query, from 0.

    Documents: groups of queries that share relevant documents, directly or through others; a query
    of no known group is a cluster of its own. Absent where labels don't tell groups.
    """
    found = {}
    groups = labels.document_groups
    if groups is not None:
        rows = evaluation.label_rows.tolist()
        keys = [
            (labels.datasets[row], row if groups[row] is None else str(groups[row])) for row in rows
        ]
        number: dict[tuple[str, int | str], int] = {}
        found[DOCUMENT] = np.array([number.setdefault(key, len(number)) for key in keys], np.intp)
    found[COLLECTION] = evaluation.dataset_codes
    return found


def uncertainties(
    means: MeanTable, clusters: Mapping[str, IntArray], n_resamples: int, seed: int
) -> list[Uncertainty]:
    """Every router and baseline at every λ. ``clusters``: of :func:`clusterings`."""
    triples = [one for lam in means.scores.lams for one in own_triples(means.scores, lam)]
    members = [means.common(triple).members for triple in triples]
    drawn = {
        name: _by_cluster(triples, members, codes, n_resamples, seed, means.confidence)
        for name, codes in clusters.items()
    }
    return [
        _uncertainty(means, triple, {name: found[place] for name, found in drawn.items()})
        for place, triple in enumerate(triples)
    ]


def _over_simple(means: MeanTable, outcome: Outcome) -> Estimate | None:
    simple = means.scores.get(STRONGEST_SIMPLE, outcome.lam)
    if simple is None or outcome.policy == STRONGEST_SIMPLE:
        return None
    common = means.common((outcome, simple))
    ours, theirs = (means.mean(one, REWARD, common) for one in (outcome, simple))
    gained = ours.replicates - theirs.replicates
    return means.estimate(ours.value - theirs.value, gained, common.n)


def cluster_means(
    values: FloatArray, members: BoolArray, codes: IntArray, resamples: Resamples
) -> FloatArray:
    """(B, K) means of (N, K) values over the ``members`` (N,) of the clusters drawn.

    ``codes`` (N,) name each query's cluster; ``resamples`` are of the clusters. NaN where a
    resample drew no member.
    """
    sums = np.zeros((resamples.n_queries, values.shape[1] + 1))
    taken = np.column_stack([values, np.ones(len(values))])[members]
    np.add.at(sums, codes[members], taken)
    total = resamples.sums(sums)
    found = np.full((len(total), values.shape[1]), np.nan)
    np.divide(total[:, :-1], total[:, -1:], out=found, where=total[:, -1:] > 0)
    return found


def _by_cluster(
    triples: Sequence[tuple[Outcome, Outcome, Outcome]],
    members: Sequence[BoolArray],
    codes: IntArray,
    n_resamples: int,
    seed: int,
    confidence: float,
) -> list[tuple[Interval, Interval]]:
    """For each triple, intervals of the lead and of the headroom closed."""
    count = int(codes.max(initial=-1)) + 1
    if count < FEWEST_CLUSTERS:
        return [((None, None), (None, None))] * len(triples)
    resamples, found = Resamples(count, n_resamples, seed), []
    for triple, member in zip(triples, members, strict=True):
        values = np.column_stack([outcome.values(REWARD) for outcome in triple])
        policy, best, ceiling = cluster_means(values, member, codes, resamples).T
        ratios = np.full(len(policy), np.nan)
        headroom = ceiling - best
        np.divide(policy - best, headroom, out=ratios, where=headroom >= SMALLEST_HEADROOM)
        found.append((interval(policy - best, confidence), interval(ratios, confidence)))
    return found


def _uncertainty(
    means: MeanTable,
    triple: tuple[Outcome, Outcome, Outcome],
    by: Mapping[str, tuple[Interval, Interval]],
) -> Uncertainty:
    outcome, _, ceiling = triple
    common = means.common(triple)
    policy, best, top = (means.mean(one, REWARD, common) for one in triple)
    macro = [macro_mean(one, REWARD, common.members) for one in triple]
    closed = headroom_closed(policy.value, best.value, top.value)
    lead = means.estimate(policy.value - best.value, policy.replicates - best.replicates, common.n)
    return Uncertainty(
        policy=outcome.policy,
        lam=outcome.lam,
        ceiling=ceiling.policy,
        lead=lead,
        lead_macro=macro[0] - macro[1],
        lead_over_simple=_over_simple(means, outcome),
        closed=Estimate(closed, *closed_interval(means, triple, REWARD, closed), common.n),
        closed_macro=headroom_closed(*macro),
        lead_by={name: one[0] for name, one in by.items()},
        closed_by={name: (None, None) if closed is None else one[1] for name, one in by.items()},
    )
