"""Linear models over query vectors by convex optimisation: seconds on one thread, no seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from router.policies.encoder import LinearHead
from training.baselines import Columns
from training.frozen import Features, Standardisation

_NEVER = -1e9
"""The logit of an arm that no training query has as its label: its softmax is exactly 0."""


def fit_softmax(features: Features, labels: Columns, arms: int, penalty: float) -> LinearHead:
    """Multinomial logistic regression of (n,) labels in 0 … arms − 1 on (n, d) features.

    Minimises the mean log loss plus ``penalty``/2 · ‖W‖² over standardised features; the bias isn't
    penalised. A label that never occurs gets probability 0.
    """
    seen = np.unique(labels)
    targets = (labels[:, None] == seen).astype(np.float64)

    def loss(logits: FloatArray) -> tuple[float, FloatArray]:
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        return float(-(targets * log_p).sum(axis=1).mean()), np.exp(log_p) - targets

    head = _minimise(loss, features, len(seen), penalty)
    weight = np.zeros((arms, features.shape[1]), dtype=np.float32)
    bias = np.full(arms, _NEVER, dtype=np.float32)
    weight[seen], bias[seen] = head.weight, head.bias
    return LinearHead(weight, bias)


def fit_sigmoids(
    features: Features, targets: BoolArray, counted: BoolArray, penalty: float
) -> LinearHead:
    """Binary logistic regression per arm on multi-hot targets (n, A): binary cross-entropy.

    ``counted`` (n, A) marks the cells that enter the loss, which is the sum over arms of the mean
    over a query's cells. Penalty as for :func:`fit_softmax`.
    """
    truth = targets.astype(np.float64)

    def loss(logits: FloatArray) -> tuple[float, FloatArray]:
        cells = np.where(counted, np.logaddexp(0.0, logits) - truth * logits, 0.0)
        slope = 0.5 * (1.0 + np.tanh(0.5 * logits)) - truth
        return float(cells.sum(axis=1).mean()), np.where(counted, slope, 0.0)

    return _minimise(loss, features, targets.shape[1], penalty)


def _minimise(
    loss: Callable[[FloatArray], tuple[float, FloatArray]],
    features: Features,
    outputs: int,
    penalty: float,
) -> LinearHead:
    """Minimise a mean loss of logits by L-BFGS; ``loss`` returns it and n times its slope."""
    from scipy.optimize import minimize

    standard = Standardisation.of(features)
    inputs = (features - standard.mean) / standard.scale
    count, dimension = inputs.shape

    def value(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        weight, bias = _parts(flat, outputs, dimension)
        amount, slope = loss(inputs @ weight.T + bias)
        by_weight = slope.T @ inputs / count + penalty * weight
        gradient = np.concatenate([by_weight.ravel(), slope.mean(axis=0)])
        return amount + 0.5 * penalty * float((weight**2).sum()), gradient

    start = np.zeros(outputs * (dimension + 1))
    found = minimize(value, start, jac=True, method="L-BFGS-B", options={"maxiter": 300})
    return unstandardised(*_parts(found.x, outputs, dimension), standard)


def _parts(
    flat: NDArray[np.float64], outputs: int, dimension: int
) -> tuple[FloatArray, FloatArray]:
    return flat[: outputs * dimension].reshape(outputs, dimension), flat[outputs * dimension :]


def unstandardised(weight: FloatArray, bias: FloatArray, standard: Standardisation) -> LinearHead:
    """Return the head that gives the same outputs on features that aren't standardised."""
    folded = weight / standard.scale
    shifted = bias - folded @ standard.mean
    return LinearHead(folded.astype(np.float32), shifted.astype(np.float32))
