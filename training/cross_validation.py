"""Fits every policy on one side of a split, and decides what lies on the other side."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray
from oracle.hardware import fixed_threads
from router.policies.encoder import EncoderPolicy
from router.policy import Policy
from router.policy_names import PER_LAM
from training import fitting
from training.decide import Fitted
from training.fitting import FitContext, Heads, Rows
from training.folds import held_out_share
from training.learners import learners_of

INNER_VALIDATION_SHARE = 0.1
"""Of a fold's training queries: they pick the epoch, so that the fold itself stays unseen."""


@dataclass(frozen=True)
class FoldRows:
    """What a fold's policies are fitted on: rows of ``context.action``, comparable."""

    train: Rows
    validation: Rows
    seen: BoolArray
    """(Q,) all rows outside the fold that may be looked at."""


def rows_of_fold(context: FitContext, folds: NDArray[np.intp], fold: int) -> FoldRows | None:
    """Return the rows outside ``fold``; None where there is nothing to train on.

    A query of a group that also stands in the fold is left out.

    Args:
        shop: what every fit shares.
        folds: (Q,) the fold of each query.
        fold: the one held out.
    """
    action = context.action
    outside = folds != fold
    outside &= ~np.isin(
        action.split_groups.astype(str), np.unique(action.split_groups[~outside].astype(str))
    )
    seen = np.flatnonzero(outside)
    if not action.comparable[seen].any():
        return None
    inner = held_out_share(action.rows(seen), INNER_VALIDATION_SHARE, context.settings.seed)
    is_validation = np.zeros(len(folds), dtype=bool)
    is_validation[seen[inner]] = True
    train = fitting.comparable_rows(context, outside & ~is_validation)
    validation = fitting.comparable_rows(context, is_validation)
    return FoldRows(train, validation, outside) if len(train) else None


def fit_fold(context: FitContext, rows: FoldRows, per_lam: bool = True) -> Fitted:
    """Fit every policy that is cheap enough to be fitted for each fold.

    ``per_lam``: the heads per λ too, where the encoder is frozen.
    """
    heads: dict[str, Heads] = {}
    if per_lam and context.settings.encoder_mode == "frozen":
        lams = context.settings.lams
        heads[PER_LAM] = fitting.fit_frozen(context, lams, rows.train, rows.validation)
    with _silent_learners():
        return fit_policies(context, heads, rows.train, rows.validation, rows.seen)


@contextmanager
def _silent_learners() -> Iterator[None]:
    logger = logging.getLogger("training.learners")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def fit_policies(
    context: FitContext, heads: dict[str, Heads], train: Rows, validation: Rows, seen: BoolArray
) -> Fitted:
    """Wrap heads as policies and fit the baselines; ``seen`` (Q,) marks train and validation.

    On one thread: small fits gain nothing from more, lose much where a core is shared, and so come
    out the same whatever the machine's threads.
    """
    learned: dict[str, Policy] = {
        name: EncoderPolicy(
            name,
            context.action.arms,
            fitted.by_lam,
            adapters=fitted.adapters,
            max_tokens=context.settings.max_tokens,
            dtype=context.settings.encoder_dtype,
            query_encoder=context.encoder,
        )
        for name, fitted in heads.items()
    }
    with fixed_threads(1):
        for learner in learners_of(context.settings):
            policy = learner.fit(replace(context, learned=learned), train, validation)
            if policy is not None:
                learned[policy.name] = policy
    tables = context.every.rows(seen), context.action.rows(seen)
    return Fitted(learned, fitting.fit_best_static(*tables, context.settings.lams))
