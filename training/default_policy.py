"""Which of the fitted policies answer where none is named: one to select, one to search.

One rule for both. On validation queries every policy has a reward, the mean over the settings' λ,
with its overhead charged by order of magnitude (:func:`training.decide.typical_ms`). The simplest
policy wins that isn't behind the best by more than one standard error of the paired differences
(:func:`training.selection.simplest_within_error`). Of two policies that one is simpler which needs
no index; of those that takes any λ; of those that is faster in the mean.

``select`` takes it among the policies that need no index, each as it is behind its gates
(:mod:`training.gating`): so the best single arm answers at every λ where choosing doesn't pay. What
comes of it is called ``router``. ``search`` takes it among ``router`` and the policies that run
arms before they decide. Test queries say nothing in this. Policies that chose settings on the same
validation queries (sets of arms, margins) look a little better there than they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from arms.errors import SettingsError
from arms.reward import FloatArray
from router.artifact import Defaults
from router.policy import Policy
from router.policy_names import PER_LAM, PER_LAM_LORA, ROUTER
from training.decide import (
    Costs,
    Fitted,
    Overheads,
    already_known,
    cost_ms,
    cost_without_asking_ms,
    measured_overheads,
    reusable_ms,
    typical_ms,
)
from training.fitting import FitContext, Rows
from training.gating import costs_of_default, gated_gains, with_gates
from training.guarding import guarded
from training.learners import learners_of
from training.merged_quality import own_quality, primary
from training.plan_outcomes import plan_outcomes, plan_rewards, quality_told
from training.selection import simplest_within_error
from training.settings import TrainingSettings

AUTO = "auto"
FEW_QUERIES = 50
"""Of validation: with fewer, which policy is best is left to chance."""
TOLERANCE_SE = 1.0


@dataclass(frozen=True, eq=False)
class Validated:
    """What a policy comes to on validation queries, the mean over the settings' λ."""

    rewards: FloatArray
    """(n,) of each query."""
    latency_ms: float
    """Of a plan, the policy's overhead included."""


@dataclass(frozen=True)
class Settled:
    """The fitted policies with ``router`` among them, and which of them are the defaults."""

    fitted: Fitted
    asked: str
    """The learner's name of the policy that ``router`` asks."""
    defaults: Defaults
    overheads: dict[str, Costs]


def check_default(settings: TrainingSettings) -> None:
    """Raise ``SettingsError`` where the settings name a default policy that won't be fitted."""
    lora = [PER_LAM_LORA] if settings.encoder_mode == "frozen" and settings.lora_lams else []
    fitted = [PER_LAM, *lora, *(one.name for one in learners_of(settings))]
    if settings.router not in (AUTO, *fitted):
        raise SettingsError(
            f"training.router is '{settings.router}', and the policies to be fitted are "
            f"{', '.join(fitted)}; name one of these, or {AUTO}"
        )


def settle(context: FitContext, fitted: Fitted, train: Rows, validation: Rows) -> Settled:
    """Time every policy of ``fitted``, on ``train``; choose the defaults on ``validation``.

    Raises:
        SettingsError: the settings name a policy that wasn't fitted, or ask for a guard, and the
            policy can't be guarded.
    """
    overheads: dict[str, Costs] = dict(measured_overheads(context, fitted.learned))
    asked = choose_asked(context, fitted.learned, train, validation, overheads)
    inner = overheads[asked]
    fitted = with_default(context, fitted, asked, inner, train, validation)
    router = fitted.learned[ROUTER]
    measured = measured_overheads(context, {ROUTER: router})[ROUTER]
    overheads[ROUTER] = costs_of_default(router, inner, measured)
    if asked not in fitted.learned:  # renamed, as there are no gates
        del overheads[asked]
    search = choose_search(context, fitted.learned, validation, overheads)
    return Settled(fitted, asked, Defaults(ROUTER, search), overheads)


def choose_asked(
    context: FitContext,
    learned: Mapping[str, Policy],
    train: Rows,
    validation: Rows,
    overheads: Overheads,
) -> str:
    """Return the name of the policy that becomes ``router``, by the rule of this module.

    Where the settings name one, that; without validation queries, or any policy that needs no
    index, the heads per λ. With ``out_of_domain`` only policies that can be guarded count.

    Raises:
        SettingsError: the settings name a policy that wasn't fitted.
    """
    wanted = context.settings.router
    if wanted != AUTO:
        if wanted not in learned:
            raise SettingsError(
                f"training.router is '{wanted}', and the policies fitted are "
                f"{', '.join(learned)}; name one of these, or {AUTO}"
            )
        return wanted
    without_index = {name: one for name, one in learned.items() if not one.probes}
    if context.settings.out_of_domain.enabled:
        without_index = {name: one for name, one in without_index.items() if one.reads_vectors}
    found = _validated(context, without_index, validation, overheads)
    if not found:
        return PER_LAM if PER_LAM in learned else next(iter(learned))
    if context.settings.gate.enabled:
        gains = {
            name: gated_gains(context, learned[name], overheads[name], train, validation)
            for name in found
        }
        found = {name: replace(one, rewards=gains[name]) for name, one in found.items()}
    return _simplest(found, learned)


def choose_search(
    context: FitContext, learned: Mapping[str, Policy], validation: Rows, overheads: Overheads
) -> str:
    """Return the name of the policy that searches by default, by the rule of this module.

    ``router`` where the settings name a policy: it then answers both ways.
    """
    if context.settings.router != AUTO:
        return ROUTER
    candidates = {n: one for n, one in learned.items() if n == ROUTER or one.probes}
    found = _validated(context, candidates, validation, overheads)
    return _simplest(found, learned) if ROUTER in found else ROUTER


def _simplest(found: Mapping[str, Validated], learned: Mapping[str, Policy]) -> str:
    def complexity(name: str) -> tuple[bool, bool, float]:
        policy = learned[name]
        return bool(policy.probes), policy.lams is not None, found[name].latency_ms

    names = sorted(found, key=complexity)
    return names[simplest_within_error([found[name].rewards for name in names], TOLERANCE_SE)]


def _validated(
    context: FitContext, policies: Mapping[str, Policy], rows: Rows, overheads: Overheads
) -> dict[str, Validated]:
    if not len(rows):
        return {}
    found = {name: validated(context, one, rows, overheads[name]) for name, one in policies.items()}
    return {name: one for name, one in found.items() if one is not None}


def validated(context: FitContext, policy: Policy, rows: Rows, costs: Costs) -> Validated | None:
    """Mean over the settings' λ on ``rows``, the typical overhead charged.

    None where the policy fuses lists, and the labels don't hold the quality of that.
    """
    table, every = context.action.rows(rows), context.every.rows(rows)
    known, reusable = already_known(context, policy, rows), reusable_ms(context, policy, rows)
    rewards, latencies_ms = [], []
    for lam in context.settings.lams:
        used = policy.nearest_lam(lam)
        decided = policy.decide(table.texts.tolist(), used, known)
        own = primary(context.runs, own_quality(context.runs, rows, decided))
        if not quality_told(decided.plans, own).all():
            return None
        unasked = np.zeros(len(rows), dtype=bool) if decided.unasked is None else decided.unasked
        free_ms = typical_ms(cost_without_asking_ms(costs))
        charged_ms = np.where(unasked, free_ms, typical_ms(cost_ms(policy, costs, used)))
        shared = None
        if reusable is not None and policy.embeds_at(used):
            shared = np.where(unasked[:, None], 0.0, reusable)
        outcomes = plan_outcomes(decided.plans, every, charged_ms, shared, own)
        rewards.append(plan_rewards(outcomes, table, lam))
        latencies_ms.append(outcomes.latency_ms.mean())
    return Validated(np.mean(rewards, axis=0), float(np.mean(latencies_ms)))


def validation_warnings(
    settings: TrainingSettings, validation: int, compares_sets: bool = False
) -> list[str]:
    """A sentence where fewer than ``FEW_QUERIES`` queries choose and calibrate the defaults.

    ``compares_sets``: a policy was fitted whose sets of arms they compare.
    """
    if validation >= FEW_QUERIES:
        return []
    remedy = f"label more queries, so that {FEW_QUERIES} or more are of validation"
    if not validation:
        sets = ", and merging's sets of arms were compared on the queries they were fitted to"
        return [
            "no validation queries: nothing chose or calibrated the default policies"
            f"{sets if compares_sets else ''}; {remedy}"
        ]
    sets = ", and so are those by which merging chooses its set of arms"
    chose = settings.router == AUTO
    return [
        f"only {validation} validation queries {'chose and ' if chose else ''}calibrated the "
        f"default policies: {'others may be better, and ' if chose else ''}the latency and quality "
        "that they promise are rough"
        f"{sets if compares_sets else ''}; {remedy}"
    ]


def with_default(
    context: FitContext, fitted: Fitted, name: str, costs: Costs, train: Rows, validation: Rows
) -> Fitted:
    """Put what selects by default first, as ``router``: guarded and gated as the settings ask.

    Behind a gate the policy ``name`` keeps its own name beside it; otherwise it is renamed.

    Args:
        shop: what every fit shares.
        fitted: on ``train``.
        name: of the policy that :func:`choose_asked` took.
        costs: of that policy.
        train: rows.
        validation: rows.

    Raises:
        SettingsError: the settings ask for a guard, and the policy can't be guarded.
    """
    inner = fitted.learned.get(name)
    if inner is None:  # in a fold: too dear to be fitted there
        return fitted
    if context.settings.out_of_domain.enabled:
        inner = guarded(context, name, inner, train, validation)
    router = with_gates(context, ROUTER, inner, costs, train, validation)
    if router is not inner:
        return replace(fitted, learned={ROUTER: router, **fitted.learned})
    router.name = ROUTER
    others = {own: policy for own, policy in fitted.learned.items() if own != name}
    return replace(fitted, learned={ROUTER: router, **others})
