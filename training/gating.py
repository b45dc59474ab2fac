"""Decides on validation queries where the default policy is asked, and by what margin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arms.reward import FloatArray, normalised_latency
from router.policies.gated import CLOSED_KEY, Gate, GatedPolicy, behind, best_arms, staying
from router.policy import Plan, Policy
from training.decide import Costs, already_known, cost_ms, reusable_ms, typical_ms
from training.fitting import FitContext, Rows
from training.merged_quality import own_quality, primary
from training.plan_outcomes import plan_outcomes, plan_rewards, quality_told
from training.table import RoutingTable

_EVEN_LAMS = 21
"""λ at which a policy that takes any λ has a gate, beside the settings' own."""


@dataclass(frozen=True)
class ArmMeans:
    """Of each arm: at any λ its mean reward follows, and so the best single arm."""

    quality: FloatArray
    """(A,)."""
    latency_share: FloatArray
    """(A,)."""


def arm_means(table: RoutingTable) -> ArmMeans:
    """Return the means over the table's queries.

    An arm that some query's dataset lacks has quality 0 and share 1, the worst of rewards: it can't
    be the best single arm.
    """
    shares = normalised_latency(table.latency_ms, table.competes)
    everywhere = table.competes.all(axis=0)
    return ArmMeans(
        np.where(everywhere, np.where(table.competes, table.quality, 0.0).mean(axis=0), 0.0),
        np.where(everywhere, np.where(table.competes, shares, 1.0).mean(axis=0), 1.0),
    )


def with_gates(
    context: FitContext, name: str, policy: Policy, costs: Costs, train: Rows, validation: Rows
) -> Policy:
    """Return ``policy`` behind gates; as it is where the settings want none or nothing is held out.

    At each λ the margin with the highest mean reward on the validation queries is taken, the
    greater where equal. Its gate is open where that reward is above the best single arm's by more
    than ``gate.standard_errors`` of the paired differences. Overhead is charged by order of
    magnitude (see :func:`training.decide.typical_ms`); the best single arm answers free of it.

    Args:
        shop: what every fit shares.
        name: of the gated policy.
        policy: fitted on ``train``.
        costs: of ``policy``.
        train: rows it was fitted on.
        validation: rows that it didn't see.
    """
    settings = context.settings
    if not settings.gate.enabled or not len(validation):
        return policy
    seen = context.action.rows(np.concatenate([train, validation]))
    means = arm_means(seen)
    even = np.linspace(0.0, 1.0, _EVEN_LAMS).round(6).tolist()
    lams = policy.lams or tuple(sorted({*settings.lams, *even}))
    gates = {lam: _gate(context, policy, costs, means, validation, lam)[0] for lam in lams}
    datasets = sorted(set(seen.datasets.tolist()))
    return GatedPolicy(name, policy, gates, means.quality, means.latency_share, datasets)


def costs_of_default(policy: Policy, inner: Costs, measured: Costs) -> Costs:
    """Return what deciding takes the default policy at each key that it has in any fold.

    A gate that is closed here may be open in a fold, and the other way round. Where none is closed
    here, a closed one is taken to cost nothing.

    Args:
        policy: the default one.
        inner: of the policy that is asked.
        measured: of ``policy`` itself, at the keys that it has.
    """
    if not isinstance(policy, GatedPolicy):
        return measured
    queries = len(next(iter(inner.values())))
    opened = {1 + key: taken_ms for key, taken_ms in inner.items()}
    return {CLOSED_KEY: np.zeros(queries), **opened, **measured}


def gated_gains(
    context: FitContext, policy: Policy, costs: Costs, train: Rows, validation: Rows
) -> FloatArray:
    """(validation,) what open gates gain on each query, the mean over the settings' λ.

    Arguments as for :func:`with_gates`.
    """
    means = arm_means(context.action.rows(np.concatenate([train, validation])))
    found = [_gate(context, policy, costs, means, validation, lam) for lam in context.settings.lams]
    gained = [gains if gate.is_open else np.zeros(len(gains)) for gate, gains in found]
    return np.asarray(np.mean(gained, axis=0))


def _gate(
    context: FitContext, policy: Policy, costs: Costs, means: ArmMeans, rows: Rows, lam: float
) -> tuple[Gate, FloatArray]:
    """Return the gate, and (rows,) what each query gains with its margin, were it open."""
    settings, table, every = (
        context.settings.gate,
        context.action.rows(rows),
        context.every.rows(rows),
    )
    best = best_arms(means.quality, means.latency_share, lam, table.competes, len(rows))
    used = policy.nearest_lam(lam)
    decided = policy.decide(table.texts.tolist(), used, already_known(context, policy, rows))
    own = primary(context.runs, own_quality(context.runs, rows, decided))
    if not quality_told(decided.plans, own).all():  # it fuses: nobody knows whether that pays
        return Gate(math.inf, 0.0, 0.0, len(rows)), np.zeros(len(rows))
    overhead_ms = typical_ms(cost_ms(policy, costs, used))
    reusable = reusable_ms(context, policy, rows) if policy.embeds_at(used) else None

    def rewards(plans: Sequence[Plan], charged_ms: float, own: FloatArray | None) -> FloatArray:
        shared = reusable if charged_ms else None
        return plan_rewards(plan_outcomes(plans, every, charged_ms, shared, own), table, lam)

    arms = [policy.arms[column] for column in best.tolist()]
    single = rewards([Plan((arm,)) for arm in arms], 0.0, None)
    leaves = rewards(decided.plans, overhead_ms, own)
    stays = rewards(
        [staying(plan, arm, policy.probes) for plan, arm in zip(decided.plans, arms, strict=True)],
        overhead_ms,
        None,
    )
    gains = {
        margin: np.where(behind(decided, best, policy.arms, margin), stays, leaves) - single
        for margin in settings.margins
    }
    margin = max(gains, key=lambda one: (gains[one].mean(), one))
    gain, error = gains[margin].mean(), _standard_error(gains[margin])
    pays = gain > settings.standard_errors * error and gain > 0.0
    gate = Gate(margin if pays else math.inf, float(gain), error, len(rows))
    return gate, gains[margin]


def _standard_error(values: FloatArray) -> float:
    """Of the mean of (n,) values; of one value alone, unknown and taken as its size."""
    if len(values) < 2:
        return float(abs(values).sum())
    return float(values.std(ddof=1) / np.sqrt(len(values)))
