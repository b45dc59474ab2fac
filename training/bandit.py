"""Learning from logged outcomes: one arm's outcome per query, and how likely it was to be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray, normalised_latency, reward
from router.policies.encoder import LinearHead
from training.baselines import Columns
from training.frozen import Features, Standardisation
from training.linear_fits import unstandardised
from training.policy_settings import BanditSettings
from training.table import RoutingTable

_FEWEST_FOR_A_LINE = 10
"""Outcomes of an arm below which its quality is estimated by their mean."""


@dataclass(frozen=True)
class Outcomes:
    """n logged outcomes; all parts run parallel."""

    vectors: Features
    """(n, d) of the queries."""
    columns: Columns
    """(n,) the arm that was run."""
    quality: FloatArray
    """(n,) in [0, 1]."""
    latency_ms: FloatArray
    """(n,)."""
    propensity: FloatArray
    """(n,) in (0, 1]: how likely the arm was to be the one run."""


@dataclass(frozen=True)
class Estimates:
    """What the outcomes say of A arms."""

    quality: LinearHead
    latency_ms: FloatArray
    """(A,) mean; 0 at an arm without an outcome."""
    logged: NDArray[np.int64]
    """(A,) outcomes of each arm."""


def estimate_outcomes(seen: Outcomes, arms: int, penalties: Sequence[float]) -> Estimates:
    """Regress quality on the query's vector per arm, each outcome weighted by 1 / propensity.

    Ridge with the penalty that has the least leave-one-out error; weights have mean 1 within an
    arm. Inverse propensity: Horvitz & Thompson 1952; in bandits, Dudík et al. (arXiv 1103.4601).
    An arm with fewer than ten outcomes is estimated by their weighted mean, one without any by 0.
    """
    from sklearn.linear_model import RidgeCV

    standard = Standardisation.of(seen.vectors)
    inputs = (seen.vectors - standard.mean) / standard.scale
    weight, bias = np.zeros((arms, inputs.shape[1])), np.zeros(arms)
    latency_ms, logged = np.zeros(arms), np.bincount(seen.columns, minlength=arms)
    for arm in np.flatnonzero(logged):
        rows = seen.columns == arm
        importance = 1.0 / seen.propensity[rows]
        importance /= importance.mean()
        quality = seen.quality[rows]
        latency_ms[arm] = np.average(seen.latency_ms[rows], weights=importance)
        bias[arm] = np.average(quality, weights=importance)
        if logged[arm] >= _FEWEST_FOR_A_LINE and np.ptp(quality) > 0:
            ridge = RidgeCV(alphas=sorted(penalties)).fit(inputs[rows], quality, importance)
            weight[arm], bias[arm] = ridge.coef_, ridge.intercept_
    return Estimates(unstandardised(weight, bias, standard), latency_ms, logged)


def simulate_log(
    table: RoutingTable,
    vectors: Features,
    options: BanditSettings,
    seed: int,
) -> Outcomes:
    """Log one arm's outcome per comparable query of ``table``; the others stay unseen.

    ``uniform``: each competing arm equally likely. ``epsilon_greedy``: queries arrive in random
    order, in rounds; the first round is uniform, and in each later one the arm with the greatest
    reward, as estimated from the log so far, is run, or with probability ε one at random.
    """
    random = np.random.default_rng(seed)
    order = random.permutation(len(table))
    rounds = options.rounds if options.logging == "epsilon_greedy" else 1
    columns = np.zeros(len(table), dtype=np.intp)
    propensity = np.ones(len(table))
    for number, rows in enumerate(np.array_split(order, rounds)):
        competes = table.competes[rows]
        chances = competes / competes.sum(axis=1, keepdims=True)
        if number:
            known = order[: int(np.flatnonzero(order == rows[0])[0])] if len(rows) else order
            past = _seen(table, vectors, known, columns, propensity)
            greedy = _greedy(past, table.rows(rows), vectors[rows], options)
            chances = options.epsilon * chances + (1 - options.epsilon) * greedy
        draws = random.random(len(rows))[:, None]
        drawn = (draws >= chances.cumsum(axis=1)).sum(axis=1)
        last = chances.shape[1] - 1 - (chances[:, ::-1] > 0).argmax(axis=1)
        columns[rows] = np.minimum(drawn, last)  # rounding may leave the last sum below the draw
        propensity[rows] = chances[np.arange(len(rows)), columns[rows]]
    return _seen(table, vectors, np.arange(len(table)), columns, propensity)


def _seen(
    table: RoutingTable,
    vectors: Features,
    rows: NDArray[np.intp],
    columns: Columns,
    propensity: FloatArray,
) -> Outcomes:
    chosen = columns[rows]
    return Outcomes(
        vectors[rows],
        chosen,
        table.quality[rows, chosen],
        table.latency_ms[rows, chosen],
        propensity[rows],
    )


def _greedy(
    past: Outcomes, table: RoutingTable, vectors: Features, options: BanditSettings
) -> FloatArray:
    """(n, A) rows with a 1 at the arm of the greatest estimated reward."""
    estimates = estimate_outcomes(past, len(table.arms), options.penalties)
    known = table.competes & (estimates.logged > 0)
    known[~known.any(axis=1)] = table.competes[~known.any(axis=1)]
    quality = vectors.astype(np.float64) @ estimates.quality.weight.T + estimates.quality.bias
    share = normalised_latency(np.tile(estimates.latency_ms, (len(table), 1)), known)
    rewards = np.where(known, reward(quality, share, options.log_lam), -np.inf)
    return np.eye(len(table.arms))[rewards.argmax(axis=1)]
