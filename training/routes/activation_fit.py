"""Fits the default router of routing labels: ridge regression on an encoder's activations.

In closed form, so that neither a seed nor an order of batches decides, and processors or threads no
more than by rounding. The parts' shares, like the strength and the temperature, were chosen by
predictions of left-out training queries, see :mod:`training.routes.ridge`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from router.activations import ActivationEncoder
from router.frozen_queries import FrozenQueries
from router.policies.activations import ActivationsPolicy
from router.query_encoder import QueryEncoder
from router.text_style import text_style
from router.text_views import NgramSpec, encodable
from training.routes.ridge import RidgeFit, fit_ridge
from training.routes.ridge_views import ngram_counts

NGRAMS = (
    NgramSpec("words", 1, 2, 1 << 14),
    NgramSpec("characters", 2, 5, 1 << 14),
    NgramSpec("shapes", 1, 4, 1 << 14),
)
ACTIVATIONS_SHARE, NGRAMS_SHARE, STYLE_SHARE = 0.5, 0.45, 0.05
"""Mean squared lengths of the parts; activations' is half means and half maxima."""
_LEAST_SPREAD = 1e-3
"""Of a number, as a share of the mean spread: what hardly varies isn't blown up."""


@dataclass(frozen=True)
class ActivationFit:
    """The router, and what is known of it without its own training queries."""

    policy: ActivationsPolicy
    ridge: RidgeFit


def fit_activations(
    name: str,
    routes: Sequence[str],
    encoder: QueryEncoder,
    texts: Sequence[str],
    needed: BoolArray,
    strengths: Sequence[float],
    on_step: Callable[[], None] = lambda: None,
) -> ActivationFit:
    """Fit on ``texts`` (Q) and the routes they need (Q, R).

    Takes 4 bytes for each activation of a query (74 KB with MiniLM) beside what ridge regression
    takes. ``on_step`` is called once more than :func:`training.routes.ridge.solves`.
    """
    clean = [encodable(text) for text in texts]
    activations = ActivationEncoder(encoder)(clean)
    on_step()
    half = activations.shape[1] // 2
    dense = [
        Standardised.of(activations[:, :half], ACTIVATIONS_SHARE / 2),
        Standardised.of(activations[:, half:], ACTIVATIONS_SHARE / 2),
        Standardised.of(text_style(clean), STYLE_SHARE),
    ]
    counts = [ngram_counts(spec, clean) for spec in NGRAMS]
    scales = [_scale(one, NGRAMS_SHARE / len(NGRAMS)) for one in counts]
    sparse = [one * scale for one, scale in zip(counts, scales, strict=True)]
    ridge = fit_ridge([*(one.rows for one in dense), *sparse], needed, strengths, on_step)
    dual = ridge.temperature * ridge.dual
    solved = [one.weights(dual) for one in dense]
    weights = {
        "activations": np.concatenate([weight for weight, _ in solved[:2]], axis=1),
        "style": solved[2][0],
        "bias": dual.sum(axis=0) + sum(bias for _, bias in solved),
        **{
            f"ngrams.{place}": scale * (part.T @ dual)
            for place, (part, scale) in enumerate(zip(sparse, scales, strict=True))
        },
    }
    kept = {
        "strength": ridge.strength,
        "temperature": ridge.temperature,
        "leave_one_out_accuracy": ridge.accuracy,
        "left_out": len(ridge.judged),
    }
    narrow = {key: np.asarray(array, dtype=np.float32) for key, array in weights.items()}
    policy = ActivationsPolicy(name, routes, FrozenQueries.of(encoder), NGRAMS, narrow, kept)
    return ActivationFit(policy, ridge)


@dataclass(frozen=True)
class Standardised:
    """Dense columns, centred and of one spread, scaled to a mean squared length together."""

    rows: NDArray[np.float32]
    """(Q, columns)."""
    means: NDArray[np.float32]
    factors: NDArray[np.float32]
    """(columns,) each; a column's row is ``(number − mean) · factor``."""

    @classmethod
    def of(cls, columns: NDArray[np.float32], share: float) -> Standardised:
        """``columns`` (Q, d) to rows whose mean squared length is ``share``."""
        means, spreads = columns.mean(axis=0), columns.std(axis=0)
        factors = 1.0 / np.maximum(spreads, _LEAST_SPREAD * max(float(spreads.mean()), 1e-12))
        rows = (columns - means) * factors
        length = np.sqrt(float((rows.astype(np.float64) ** 2).sum()) / len(rows))
        scale = np.float32(np.sqrt(share) / max(length, 1e-12))
        return cls(rows * scale, means, factors * scale)

    def weights(self, dual: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(R, columns) weights of the raw columns, and (R,) what the bias gains."""
        weight = (self.rows.T @ dual.astype(np.float32)).T.astype(np.float64) * self.factors
        return weight, -(weight @ self.means)


def _scale(counts: Any, share: float) -> float:
    length = np.sqrt(counts.multiply(counts).sum() / counts.shape[0])
    return float(np.sqrt(share) / max(length, 1e-12))
