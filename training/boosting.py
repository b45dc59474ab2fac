"""Fits boosted trees with LightGBM, repeatably."""

from __future__ import annotations

from typing import Literal, Protocol

from arms.reward import FloatArray
from router.boosters import import_lightgbm


class TreeSettings(Protocol):
    """What trees are grown by."""

    rounds: int
    learning_rate: float
    leaves: int
    least_per_leaf: int
    feature_share: float


def fit_booster(
    features: FloatArray,
    target: FloatArray,
    options: TreeSettings,
    seed: int,
    objective: Literal["regression", "cross_entropy"] = "regression",
    weights: FloatArray | None = None,
) -> str:
    """Fit one model of (n,) ``target`` from (n, features); return it as LightGBM writes it.

    Raises:
        MissingExtraError: LightGBM isn't installed.
    """
    lightgbm = import_lightgbm()
    given = {
        "objective": objective,
        "learning_rate": options.learning_rate,
        "num_leaves": options.leaves,
        "min_data_in_leaf": min(options.least_per_leaf, max(1, len(features) // 20)),
        "feature_fraction": options.feature_share,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "lambda_l2": 5.0,
        "max_bin": 63,
        "seed": seed,
        "deterministic": True,
        "force_col_wise": True,
        "num_threads": 1,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(features, target, weight=weights, params=given)
    return str(lightgbm.train(given, data, options.rounds).model_to_string())
