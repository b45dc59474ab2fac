"""Fits boosted trees with LightGBM, repeatably."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

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
    given = {"objective": objective, **_parameters(len(features), options, seed)}
    return _trained(given, options.rounds, features, target, weight=weights)


def fit_ranker(
    features: FloatArray,
    gains: FloatArray,
    counts: NDArray[np.intp],
    k: int,
    options: TreeSettings,
    seed: int,
    weights: FloatArray,
) -> str:
    """Fit a model whose scores order each query's candidates; return it as LightGBM writes it.

    LambdaRank (Burges, MSR-TR-2010-82) on nDCG@k; queries of ``counts`` candidates follow one
    another in ``features``. Gains of [0, 1] become ``GRADES`` whole grades, gained linearly.

    Raises:
        MissingExtraError: LightGBM isn't installed.
    """
    grades = np.ceil(gains.clip(0.0, 1.0) * (GRADES - 1) - 1e-9).astype(np.int64)
    given = {
        "objective": "lambdarank",
        "lambdarank_truncation_level": k + 3,
        "label_gain": list(range(GRADES)),
        **_parameters(len(features), options, seed),
    }
    return _trained(
        given, options.rounds, features, grades, weight=weights, group=counts[counts > 0]
    )


GRADES = 32
"""Steps of a gain that :func:`fit_ranker` tells apart."""


def _parameters(rows: int, options: TreeSettings, seed: int) -> dict[str, Any]:
    return {
        "learning_rate": options.learning_rate,
        "num_leaves": options.leaves,
        "min_data_in_leaf": min(options.least_per_leaf, max(1, rows // 20)),
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


def _trained(
    given: dict[str, Any], rounds: int, features: FloatArray, target: NDArray[Any], **told: Any
) -> str:
    lightgbm = import_lightgbm()
    data = lightgbm.Dataset(features, target, params=given, **told)
    return str(lightgbm.train(given, data, rounds).model_to_string())
