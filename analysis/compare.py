"""Two runs side by side: which policies changed on the queries both have, and beyond noise?

Differences are B − A, paired by query; intervals are percentiles of one bootstrap over the shared
queries. Whether a change of reward is more than noise is decided by the paired test of
``analysis.paired_test``, Holm-corrected over all policies and λ compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from analysis.bootstrap import Estimate, Resamples, estimate_means
from analysis.decided import TEST, join_decisions
from analysis.evaluation import IntArray, evaluate_queries
from analysis.oracle_policy import oracle_outcomes
from analysis.outcomes import LATENCY, REWARD, Outcome, static_outcomes
from analysis.paired_test import holm, paired_test
from analysis.roles import in_report_order
from arms.errors import LabelsError
from oracle.labels import Labels
from oracle.redact import OPAQUE_GROUPS

Verdict = Literal["the same", "within noise", "better", "worse"]
_EXAMPLES = 5


@dataclass(frozen=True, eq=False)
class Side:
    """One of the two runs."""

    name: str
    labels: Labels
    decisions: pa.Table


@dataclass(frozen=True, slots=True)
class Only:
    """What one side has and the other lacks, e.g. arms; first A's, then B's."""

    what: str
    in_a: tuple[str, ...]
    in_b: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One policy at one λ on the shared queries; differences are B − A."""

    policy: str
    lam: float
    n: int
    reward_a: float
    reward_b: float
    reward: Estimate
    quality: Estimate
    latency_ms: Estimate
    other_arm: float
    """Share of the queries that another arm answers, or another set of arms merged."""
    holm_p: float
    """Of the difference in reward, over all changes."""
    verdict: Verdict


@dataclass(frozen=True)
class Compared:
    """The whole comparison."""

    name_a: str
    name_b: str
    measure: str
    n: int
    """Shared test queries on which no arm failed on either side."""
    confidence: float
    changes: tuple[Change, ...]
    """By policy in report order, then λ."""
    only: tuple[Only, ...]
    notes: tuple[str, ...]


def compare_runs(
    a: Side, b: Side, n_resamples: int = 2000, confidence: float = 0.95, seed: int = 42
) -> Compared:
    """Compare what both sides have; name what only one has.

    Latency is normalised, on both sides, over the router's arms that both have.

    Raises:
        LabelsError: the sides share no test query, no router arm, or measure quality differently.
        RouterError: decisions that don't fit their labels.
        MissingExtraError: scipy or statsmodels isn't installed.
    """
    declared = _shared_arms(a, b)
    rows_a, rows_b, notes = _shared_rows(a, b)
    decided_a, decided_b = (
        join_decisions(a.decisions, a.labels),
        join_decisions(b.decisions, b.labels),
    )
    lams = tuple(lam for lam in decided_a.lams if lam in decided_b.lams)
    sides = []
    for side, decided, rows in ((a, decided_a, rows_a), (b, decided_b, rows_b)):
        evaluation = evaluate_queries(side.labels, rows, TEST, declared)
        outcomes = decided.outcomes(evaluation, lams)
        outcomes += static_outcomes(evaluation, lams) + oracle_outcomes(evaluation, lams)
        sides.append({(one.policy, one.lam): one for one in outcomes if one.lam in lams})
    changes = _changes(sides[0], sides[1], n_resamples, confidence, seed)
    if not changes:
        raise LabelsError(
            f"{a.name} and {b.name} have no policy in common at any λ (λ of A: "
            f"{_lams(decided_a.lams)}; of B: {_lams(decided_b.lams)}); train both at one λ at least"
        )
    return Compared(
        name_a=a.name,
        name_b=b.name,
        measure=a.labels.primary_measure,
        n=len(rows_a),
        confidence=confidence,
        changes=changes,
        only=_differences(a, b, (decided_a.lams, decided_b.lams), sides),
        notes=(*notes, *_settings_that_differ(a, b, declared)),
    )


def _lams(lams: Sequence[float]) -> str:
    return ", ".join(f"{lam:g}" for lam in lams) or "none"


def _shared_arms(a: Side, b: Side) -> tuple[str, ...]:
    if a.labels.primary_measure != b.labels.primary_measure:
        raise LabelsError(
            f"{a.name} measures quality as {a.labels.primary_measure}, {b.name} as "
            f"{b.labels.primary_measure}; rewards of the two can't be compared"
        )
    shared = tuple(arm for arm in a.labels.router_arms if arm in b.labels.router_arms)
    if not shared:
        raise LabelsError(
            f"no arm is a router's choice on both sides ({a.name}: "
            f"{', '.join(a.labels.router_arms)}; {b.name}: {', '.join(b.labels.router_arms)}); "
            "these runs have nothing to compare"
        )
    return shared


Key = tuple[str, str]


def _keys(labels: Labels) -> dict[Key, int]:
    pairs = zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True)
    return {key: row for row, key in enumerate(pairs)}


def _shared_rows(a: Side, b: Side) -> tuple[IntArray, IntArray, list[str]]:
    """Rows of the queries that are test on both sides and failed on neither, in one order."""
    keys_a, keys_b = _keys(a.labels), _keys(b.labels)
    both = [key for key in keys_a if key in keys_b]
    if not both:
        raise LabelsError(
            f"{a.name} and {b.name} share no query (dataset and query id); compare runs over the "
            f"same datasets. A has {_some(sorted(set(a.labels.datasets.tolist())))}, B has "
            f"{_some(sorted(set(b.labels.datasets.tolist())))}"
        )
    rows_a = np.array([keys_a[key] for key in both], dtype=np.intp)
    rows_b = np.array([keys_b[key] for key in both], dtype=np.intp)
    kept = np.ones(len(both), dtype=bool)
    notes: list[str] = []

    def leave_out(wrong: Any, why: str) -> None:
        gone = kept & wrong
        if gone.any():
            first = both[int(np.flatnonzero(gone)[0])]
            example = f"e.g. {first[1]} of {first[0]}"
            notes.append(f"{int(gone.sum()):,} shared queries are left out: {why} ({example}).")
            kept[gone] = False

    test_a, test_b = a.labels.splits[rows_a] == TEST, b.labels.splits[rows_b] == TEST
    if _hashed(a.labels) and _hashed(b.labels):
        texts_a, texts_b = a.labels.text_groups[rows_a], b.labels.text_groups[rows_b]
        leave_out((test_a | test_b) & (texts_a != texts_b), "their text isn't the same")
    leave_out(test_a != test_b, "they are test queries on one side only")
    kept &= test_a & test_b
    for side, rows in ((a, rows_a), (b, rows_b)):
        failed = ~side.labels.comparable(side.labels.pipelines)[rows]
        leave_out(failed, f"an arm failed on them in {side.name}")
    if not kept.any():
        raise LabelsError(
            f"{a.name} and {b.name} share {len(both):,} queries, and none is left to compare: "
            + (" ".join(notes) or "none of them is a test query.")
        )
    return rows_a[kept], rows_b[kept], notes


def _hashed(labels: Labels) -> bool:
    return OPAQUE_GROUPS not in labels.manifest.get("withheld", ())


def _changes(
    in_a: Mapping[tuple[str, float], Outcome],
    in_b: Mapping[tuple[str, float], Outcome],
    n_resamples: int,
    confidence: float,
    seed: int,
) -> tuple[Change, ...]:
    shared = [key for key in in_a if key in in_b]
    if not shared:
        return ()
    first = in_a[shared[0]].evaluation
    order = in_report_order({policy for policy, _ in shared}, first.pipelines)
    shared.sort(key=lambda key: (order.index(key[0]), key[1]))
    metrics = (REWARD, first.primary_measure, LATENCY)
    pairs = [(in_a[key], in_b[key]) for key in shared]
    pairs = [(x, y) for x, y in pairs if (x.evaluated & y.evaluated).any()]
    differences = [y.values(name) - x.values(name) for x, y in pairs for name in metrics]
    if not differences:
        return ()
    estimates = estimate_means(
        np.stack(differences, axis=1), Resamples(len(first), n_resamples, seed), confidence
    )
    p_values = _corrected(pairs)
    return tuple(
        _change(x, y, estimates[3 * at : 3 * at + 3], p_values[at], confidence)
        for at, (x, y) in enumerate(pairs)
    )


def _corrected(pairs: Sequence[tuple[Outcome, Outcome]]) -> list[float]:
    """Holm-corrected p of each pair's rewards; 1, and no test, where all rewards are equal."""
    p_values: dict[int, float] = {}
    for at, (x, y) in enumerate(pairs):
        both = x.evaluated & y.evaluated
        if not np.array_equal(x.reward[both], y.reward[both]):
            p_values[at] = paired_test(y.reward[both], x.reward[both]).p_value
    adjusted = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return [adjusted.get(at, 1.0) for at in range(len(pairs))]


def _change(
    a: Outcome, b: Outcome, estimates: Sequence[Estimate], p: float, confidence: float
) -> Change:
    both = a.evaluated & b.evaluated
    arms_a, arms_b = a.answered_by(), b.answered_by()  # the sides may number arms differently
    verdict: Verdict = "within noise"
    if np.array_equal(a.reward[both], b.reward[both]):
        verdict = "the same"
    elif p < 1.0 - confidence:
        verdict = "better" if (estimates[0].value or 0.0) > 0.0 else "worse"
    return Change(
        policy=a.policy,
        lam=a.lam,
        n=int(both.sum()),
        reward_a=float(a.reward[both].mean()),
        reward_b=float(b.reward[both].mean()),
        reward=estimates[0],
        quality=estimates[1],
        latency_ms=estimates[2],
        other_arm=float((arms_a != arms_b)[both].mean()),
        holm_p=p,
        verdict=verdict,
    )


def _differences(
    a: Side,
    b: Side,
    lams: tuple[Sequence[float], Sequence[float]],
    outcomes: Sequence[Mapping[tuple[str, float], Outcome]],
) -> tuple[Only, ...]:
    """What only one side has: datasets, queries, arms, λ, policies."""
    keys_a, keys_b = _keys(a.labels), _keys(b.labels)
    policies = [_only_policies(outcomes[0], outcomes[1]), _only_policies(outcomes[1], outcomes[0])]
    listed = (
        ("datasets", set(a.labels.datasets.tolist()), set(b.labels.datasets.tolist())),
        (
            "queries",
            {f"{query_id} of {dataset}" for dataset, query_id in keys_a},
            {f"{query_id} of {dataset}" for dataset, query_id in keys_b},
        ),
        ("arms", set(a.labels.pipelines), set(b.labels.pipelines)),
        ("router arms", set(a.labels.router_arms), set(b.labels.router_arms)),
        ("λ", {f"{lam:g}" for lam in lams[0]}, {f"{lam:g}" for lam in lams[1]}),
        ("policies", policies[0], policies[1]),
    )
    return tuple(
        Only(what, tuple(sorted(in_a - in_b)), tuple(sorted(in_b - in_a)))
        for what, in_a, in_b in listed
        if in_a != in_b
    )


def _only_policies(
    ours: Iterable[tuple[str, float]], theirs: Iterable[tuple[str, float]]
) -> set[str]:
    """Policies that the other side lacks: wholly, or at a λ that both have."""
    known = set(theirs)
    elsewhere = {policy for policy, _ in known}
    return {
        f"{policy} at {lam:g}" if policy in elsewhere else policy
        for policy, lam in ours
        if (policy, lam) not in known
    }


def _settings_that_differ(a: Side, b: Side, declared: Sequence[str]) -> list[str]:
    notes = []
    for side in (a, b):
        if set(declared) != set(side.labels.router_arms):
            notes.append(
                f"Latency is normalised over the arms that both routers may choose "
                f"({', '.join(declared)}), so rewards differ from those in {side.name}'s report."
            )
            break
    machines = [_machines(side.labels.manifest) for side in (a, b)]
    if machines[0] != machines[1]:
        notes.append(
            f"Latencies were measured on different machines or threads ({machines[0]}; "
            f"{machines[1]}): changes of latency and reward say as much about these."
        )
    return notes


def _machines(manifest: Mapping[str, Any]) -> str:
    listed = manifest.get("latency_measured_on")
    found = [
        f"{one.get('cpu')}, {one.get('cores')} cores, {one.get('threads')} threads"
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, Mapping)
    ]
    return " and ".join(found) or "not stated"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - _EXAMPLES
    return ", ".join(names[:_EXAMPLES]) + (f" and {rest:,} more" if rest > 0 else "")
