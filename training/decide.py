"""What every fitted policy decides on labelled queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from oracle.best_arm import Columns
from oracle.best_static import BestStatic
from router.overhead import measure_overheads
from router.policy import Policy, PolicyInputs, Probed
from router.policy_names import (
    BEST_STATIC,
    BEST_STATIC_PER_DATASET,
    RANDOM_SAME_MIX,
    ROUTER,
    static_name,
)
from router.realised import answering_columns, plan_latency_ms
from training.baselines import same_mix
from training.decision_table import DecisionTable
from training.fitting import FitContext, Rows
from training.merged_quality import own_ceiling, own_quality, primary
from training.plan_outcomes import latency_of_arms, quality_told, reused_ms
from training.table import RoutingTable


@dataclass(frozen=True)
class Chosen:
    """What a policy chose for n queries at one λ."""

    columns: Columns
    """(n,) of A: the arm that answers."""
    latency_ms: FloatArray | None
    """(n,) of the whole plan: its arms and overhead, less encoding that is reused. None where a
    plan's fusion is one of which the labels know no quality."""
    own_quality: FloatArray | None = None
    """(n,) of rankings that the policy made itself, NaN where an arm answers; None: one always
    does."""

    def rows(self, kept: NDArray[Any]) -> Chosen:
        """Return what was chosen for some of the queries, by index or mask."""
        latency_ms, own = self.latency_ms, self.own_quality
        return Chosen(
            self.columns[kept],
            None if latency_ms is None else latency_ms[kept],
            None if own is None else own[kept],
        )


Costs = Mapping[int, FloatArray]
"""Of one policy: :meth:`router.policy.Policy.overhead_key` → (Q,) milliseconds of each query."""
Overheads = Mapping[str, Costs]
"""Policy → what deciding takes it."""


def cost_ms(policy: Policy, costs: Costs, lam: float, dataset: str | None = None) -> FloatArray:
    """(Q,) milliseconds that deciding takes at λ; the most where nothing was timed for it."""
    known = costs.get(policy.overhead_key(lam, dataset))
    return max(costs.values(), key=np.median) if known is None else known


def typical_ms(overhead_ms: FloatArray) -> float:
    """The geometric middle of the power of ten that holds the median: 3.2 ms for 1 to 10 ms.

    A choice that turned on the exact time would come out differently from run to run.
    """
    median = float(np.median(overhead_ms))
    return 0.0 if median <= 0 else float(10.0 ** (np.floor(np.log10(median)) + 0.5))


def cost_without_asking_ms(costs: Costs) -> FloatArray:
    """(Q,) milliseconds where a policy's model isn't run: the least there is."""
    return min(costs.values(), key=np.median)


def charged_ms(
    policy: Policy, costs: Costs, lam: float, datasets: NDArray[np.object_], rows: Rows
) -> FloatArray:
    """(rows,) milliseconds that deciding takes each of ``rows``, asked of ``datasets`` (rows,)."""
    found = np.zeros(len(rows))
    for dataset in np.unique(datasets.astype(str)):
        mine = datasets.astype(str) == dataset
        found[mine] = cost_ms(policy, costs, lam, dataset)[rows[mine]]
    return found


def _shared_ms(
    policy: Policy, reusable: FloatArray | None, lam: float, datasets: NDArray[np.object_]
) -> FloatArray | None:
    """(rows, P) of :func:`reusable_ms`, 0 where the policy embeds no query at λ."""
    if reusable is None:
        return None
    embeds = {name: policy.embeds_at(lam, name) for name in np.unique(datasets.astype(str))}
    read = np.array([embeds[str(name)] for name in datasets], dtype=bool)
    return np.where(read[:, None], reusable, 0.0)


@dataclass(frozen=True)
class Fitted:
    """What was fitted on one side of a split."""

    learned: Mapping[str, Policy]
    """Name → policy: ``router``, ``tfidf``, …, those that there are."""
    best_static: Mapping[float, BestStatic]
    """λ → orders of P's arms."""


def add_static_arms(
    decisions: DecisionTable, every: RoutingTable, splits: NDArray[np.object_]
) -> None:
    """Add ``static:<arm>`` for every arm of P; no decision where the dataset lacks it."""
    for column, arm in enumerate(every.arms):
        columns = np.where(every.competes[:, column], column, -1)
        ones = np.ones(len(every))
        decisions.add_columns(static_name(arm), None, every, splits, columns, ones)


def add_decisions(
    decisions: DecisionTable,
    context: FitContext,
    fitted: Fitted,
    rows: Rows,
    splits: NDArray[np.object_],
    overheads: Overheads,
) -> dict[tuple[str, float], Chosen]:
    """Add what the fitted policies and the baselines decide on ``rows``.

    ``splits`` (rows,) names the split of each in this evaluation. Returns what was chosen, by
    learned policy and λ.
    """
    action, every = context.action.rows(rows), context.every.rows(rows)
    chosen, at = {}, np.arange(len(rows))
    for name, policy in fitted.learned.items():
        known = already_known(context, policy, rows)
        reusable = reusable_ms(context, policy, rows)
        for lam in policy.lams or context.settings.lams:
            decided = policy.decide(action.texts.tolist(), lam, known)
            columns = answering_columns(decided.plans, action.arms)
            shared = _shared_ms(policy, reusable, lam, action.datasets)
            reused = reused_ms(decided.plans, every, shared)
            overhead_ms = charged_ms(policy, overheads[name], lam, action.datasets, rows)
            if decided.unasked is not None:
                free_ms = cost_without_asking_ms(overheads[name])[rows]
                overhead_ms = np.where(decided.unasked, free_ms, overhead_ms)
                reused = np.where(decided.unasked, 0.0, reused)
            own = own_quality(context.runs, rows, decided)
            decisions.add(
                name,
                lam,
                action,
                splits,
                np.array([str(plan) for plan in decided.plans], dtype=object),
                decided.probabilities[at, columns],
                overhead_ms,
                decided.predicted_quality,
                reused,
                own,
                own_ceiling(context.runs, rows, decided),
            )
            latency_ms, of_answer = None, primary(context.runs, own)
            if quality_told(decided.plans, of_answer).all():
                arms_ms = latency_of_arms(decided.plans, every)
                latency_ms = plan_latency_ms(arms_ms, overhead_ms, reused)
            chosen[name, lam] = Chosen(columns, latency_ms, of_answer)
            if name == ROUTER:
                drawn = _same_mix_per_split(columns, action, splits, (context.settings.seed, lam))
                decisions.add_columns(RANDOM_SAME_MIX, lam, action, splits, *drawn)
    for lam in context.settings.lams:
        best = fitted.best_static[lam]
        ones = np.ones(len(rows))
        overall = best.choose(every.competes)
        decisions.add_columns(BEST_STATIC, lam, every, splits, overall, ones)
        per_dataset = best.choose_per_dataset(every.datasets, every.competes)
        decisions.add_columns(BEST_STATIC_PER_DATASET, lam, every, splits, per_dataset, ones)
    return chosen


def measured_overheads(
    context: FitContext, policies: Mapping[str, Policy]
) -> dict[str, dict[int, FloatArray]]:
    """Policy → its costs: milliseconds of deciding each labelled query, alone and warm.

    Timed on test queries (on all queries where there is no test split), evenly spread and at most
    ``overhead_queries`` of them, the policies taking turns; at one λ for each of a policy's costs.
    Every other query gets the median.
    """
    table, wanted = context.action, context.settings.overhead_queries
    candidates = np.flatnonzero(table.splits == "test")
    candidates = candidates if len(candidates) else np.arange(len(table))
    spread = np.linspace(0, len(candidates) - 1, min(wanted, len(candidates)))
    rows = candidates[np.unique(spread.round().astype(np.intp))]
    timed: dict[str, Policy] = {}
    lams: dict[str, float] = {}
    parts: dict[str, tuple[str, int]] = {}
    for name, policy in policies.items():
        # What is taken at no λ here may be taken in a fold, or by the policy fitted otherwise.
        costs = {cost: (policy, lam) for cost, lam in policy.overhead_keys().items()}
        costs |= {cost: (other, 0.0) for cost, other in policy.other_costs().items()}
        for cost, (one, lam) in sorted(costs.items()):
            part = f"{name} {cost}"
            timed[part], lams[part], parts[part] = one, lam, (name, cost)
    timed_ms = measure_overheads(
        timed,
        table.texts[rows].tolist(),
        lams,
        probed={
            part: _probed(context, one, rows, one.probes_at(lams[part]))
            for part, one in timed.items()
        },
        seed=context.settings.seed,
    )
    found: dict[str, dict[int, FloatArray]] = {name: {} for name in policies}
    for part, (name, cost) in parts.items():
        taken = np.full(len(table), np.median(timed_ms[part]))
        taken[rows] = timed_ms[part]
        found[name][cost] = taken
    return found


def already_known(context: FitContext, policy: Policy, rows: Rows) -> PolicyInputs:
    """What is known of ``rows``: query vectors, what probes found, which arms compete."""
    same = policy.queries is not None and policy.queries.same_as(context.encoder)
    return PolicyInputs(
        embeddings=context.embedded[rows] if same and context.embedded.shape[1] else None,
        probed=_probed(context, policy, rows, policy.probes),
        competes=context.action.competes[rows],
        datasets=context.action.datasets[rows].tolist(),
    )


def reusable_ms(context: FitContext, policy: Policy, rows: Rows) -> FloatArray | None:
    """(rows, P) what arms save by taking the policy's query vectors; None where it has none."""
    if context.reusable_ms is None or policy.queries is None:
        return None
    return context.reusable_ms[rows] if policy.queries.same_as(context.encoder) else None


def _probed(
    context: FitContext, policy: Policy, rows: Rows, probes: Sequence[str]
) -> Probed | None:
    if not probes or context.runs is None:
        return None
    return context.runs.probed(probes, rows, context.every, policy.probe_depth)


def _same_mix_per_split(
    columns: Columns,
    action: RoutingTable,
    splits: NDArray[np.object_],
    seed: tuple[int, float],
) -> tuple[Columns, FloatArray]:
    """Draw with the router's mix on the same split, so that only knowing the query differs."""
    drawn, probability = np.empty_like(columns), np.empty(len(columns))
    for number, split in enumerate(sorted(set(splits))):
        here = splits == split
        draw_seed = (seed[0], round(seed[1] * 1e9), number)
        drawn[here], probability[here] = same_mix(columns[here], action.competes[here], draw_seed)
    return drawn, probability
