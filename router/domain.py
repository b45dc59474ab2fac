"""How far a query lies from everything a router was trained on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.policy import Embeddings

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Domain:
    """Training queries' directions, and the distance beyond which a query is foreign.

    The distance to the nearest training example as an out-of-distribution score: Sun et al.,
    Out-of-distribution Detection with Deep Nearest Neighbors (ICML 2022), with k = 1.
    """

    vectors: NDArray[np.float16]
    """(T, d) of length 1; T ≥ 1."""
    threshold: float
    """Distances above it are out of domain."""
    false_alarm_rate: float
    """Share of in-domain validation queries that lie beyond the threshold."""

    def __post_init__(self) -> None:
        # Once, not at every call: products in half precision are slow.
        object.__setattr__(self, "_wide", self.vectors.astype(np.float32))

    def distances(self, embeddings: Embeddings) -> FloatArray:
        """(n,) in [0, 2] from embeddings (n, d): 1 − cosine to the nearest training query."""
        wide: NDArray[np.float32] = self.__dict__["_wide"]
        queries = unit_rows(embeddings)
        nearest = np.empty(len(queries))
        for begin in range(0, len(queries), _ROWS_AT_ONCE):
            part = queries[begin : begin + _ROWS_AT_ONCE]
            nearest[begin : begin + _ROWS_AT_ONCE] = (part @ wide.T).max(axis=1)
        return np.asarray(np.clip(1.0 - nearest, 0.0, 2.0))


def unit_rows(embeddings: Embeddings) -> Embeddings:
    """(n, d) scaled to length 1; a row of zeros stays one, at distance 1 from everything."""
    lengths = np.linalg.norm(embeddings, axis=1, keepdims=True)
    return np.divide(
        embeddings, lengths, out=np.zeros_like(embeddings, dtype=np.float32), where=lengths > 0
    )


def distance_threshold(distances: FloatArray, false_alarm_rate: float) -> float:
    """The smallest of ``distances`` beyond which at most ``false_alarm_rate`` of them lie.

    Args:
        distances: (n,) of in-domain queries that weren't trained on; n ≥ 1.
        false_alarm_rate: in [0, 1).
    """
    ordered = np.sort(distances)
    allowed = int(np.floor(false_alarm_rate * len(ordered) + 1e-9))
    return float(ordered[len(ordered) - 1 - allowed])
