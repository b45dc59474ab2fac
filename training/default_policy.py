"""Which of the fitted policies is ``router``, the one that is used unless another is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from arms.errors import SettingsError
from router.policy import Policy
from router.policy_names import PER_LAM, PER_LAM_LORA, ROUTER
from training.deciding import (
    Costs,
    Fitted,
    Overheads,
    already_known,
    cost_ms,
    reusable_ms,
    typical_ms,
)
from training.fitting import Rows, Workshop
from training.gating import mean_gain, with_gates
from training.guarding import guarded
from training.learners import all_learners, learners_of
from training.own_rankings import own_quality, primary
from training.plan_outcomes import plan_outcomes, plan_rewards
from training.settings import TrainingSettings

AUTO = "auto"
FEW_QUERIES = 50
"""Of validation: with fewer, which policy is best is left to chance."""


def check_default(settings: TrainingSettings) -> None:
    """Raise ``SettingsError`` where the settings name a default policy that won't be fitted."""
    lora = [PER_LAM_LORA] if settings.encoder_mode == "frozen" and settings.lora_lams else []
    fitted = [PER_LAM, *lora, *(one.name for one in learners_of(settings))]
    if settings.router not in (AUTO, *fitted):
        raise SettingsError(
            f"training.router is '{settings.router}', and the policies to be fitted are "
            f"{', '.join(fitted)}; name one of these, or {AUTO}"
        )


def choose_default(
    shop: Workshop,
    learned: Mapping[str, Policy],
    train: Rows,
    validation: Rows,
    overheads: Overheads,
) -> str:
    """Return the name of the policy to be used by default, as the settings say.

    ``auto``: of the policies that take any λ and look at the query alone, the one whose gates
    (:mod:`training.gating`) let in the most reward on the validation queries, averaged over the
    settings' λ; where equal, and where there are no gates, the one with the highest reward, then
    the earlier learner. Overhead is charged by order of magnitude (see :func:`typical_ms`). Without
    such a policy, or without validation queries, the heads per λ.

    Raises:
        SettingsError: the settings name a policy that wasn't fitted.
    """
    wanted = shop.settings.router
    if wanted != AUTO:
        if wanted not in learned:
            raise SettingsError(
                f"training.router is '{wanted}', and the policies fitted are "
                f"{', '.join(learned)}; name one of these, or {AUTO}"
            )
        return wanted
    candidates = [one.name for one in all_learners() if one.may_be_default and one.name in learned]
    if not candidates or not len(validation):
        return PER_LAM if PER_LAM in learned else next(iter(learned))

    def gained(name: str) -> float:
        return mean_gain(shop, learned[name], overheads[name], train, validation)

    return max(
        candidates,
        key=lambda name: (
            round(gained(name), 9),
            round(validation_reward(shop, learned[name], validation, overheads[name]), 9),
            -candidates.index(name),
        ),
    )


def validation_warnings(
    settings: TrainingSettings, validation: int, compares_sets: bool = False
) -> list[str]:
    """A sentence where fewer than ``FEW_QUERIES`` queries choose and calibrate the default.

    ``compares_sets``: a policy was fitted whose sets of arms they compare.
    """
    if validation >= FEW_QUERIES:
        return []
    remedy = f"label more queries, so that {FEW_QUERIES} or more are of validation"
    if not validation:
        sets = ", and merging's sets of arms were compared on the queries they were fitted to"
        return [
            "no validation queries: nothing chose or calibrated the default policy"
            f"{sets if compares_sets else ''}; {remedy}"
        ]
    sets = ", and so are those by which merging chooses its set of arms"
    candidates = sum(one.may_be_default for one in learners_of(settings))
    chose = settings.router == AUTO and candidates > 1
    return [
        f"only {validation} validation queries {'chose and ' if chose else ''}calibrated the "
        f"default policy: {'another may be better, and ' if chose else ''}the latency and quality "
        "that it promises are rough"
        f"{sets if compares_sets else ''}; {remedy}"
    ]


def validation_reward(shop: Workshop, policy: Policy, rows: Rows, costs: Costs) -> float:
    """Mean reward on ``rows`` over the settings' λ, the typical overhead charged."""
    table, every = shop.action.rows(rows), shop.every.rows(rows)
    known, reusable = already_known(shop, policy, rows), reusable_ms(shop, policy, rows)
    found = []
    for lam in shop.settings.lams:
        decided = policy.decide(table.texts.tolist(), lam, known)
        charged = typical_ms(cost_ms(policy, costs, lam))
        own = primary(shop.runs, own_quality(shop.runs, rows, decided))
        reused = reusable if policy.embeds_at(lam) else None
        outcomes = plan_outcomes(decided.plans, every, charged, reused, own)
        found.append(float(plan_rewards(outcomes, table, lam).mean()))
    return float(np.mean(found))


def with_default(
    shop: Workshop, fitted: Fitted, name: str, costs: Costs, train: Rows, validation: Rows
) -> Fitted:
    """Put the default policy first, as ``router``: guarded and gated as the settings ask.

    Behind a gate the policy ``name`` keeps its own name beside it; otherwise it is renamed.

    Args:
        shop: what every fit shares.
        fitted: on ``train``.
        name: of the policy that :func:`choose_default` took.
        costs: of that policy.
        train: rows.
        validation: rows.

    Raises:
        SettingsError: the settings ask for a guard, and the policy can't be guarded.
    """
    inner = fitted.learned.get(name)
    if inner is None:  # in a fold: too dear to be fitted there
        return fitted
    if shop.settings.out_of_domain.enabled:
        inner = guarded(shop, name, inner, train, validation)
    router = with_gates(shop, ROUTER, inner, costs, train, validation)
    if router is not inner:
        return replace(fitted, learned={ROUTER: router, **fitted.learned})
    router.name = ROUTER
    others = {own: policy for own, policy in fitted.learned.items() if own != name}
    return replace(fitted, learned={ROUTER: router, **others})
