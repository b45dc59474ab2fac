"""What a quality model needs of query vectors: principal components and nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from router.domain import unit_rows
from router.policies.knn import nearest
from router.policy import Embeddings

_BLOCK_CELLS = 1 << 23
"""Similarities held at a time."""


ARRAY_NAMES = ("mean", "components", "neighbours", "relative", "has")


def array_shapes(n_arms: int) -> dict[str, tuple[int | None, ...]]:
    """Return the shapes of :meth:`QueryVectors.arrays`; None is any length."""
    return {
        "mean": (None,),
        "components": (None, None),
        "neighbours": (None, None),
        "relative": (None, n_arms),
        "has": (None, n_arms),
    }


@dataclass(frozen=True)
class QueryVectors:
    """What the model needs to read query vectors of length d."""

    mean: NDArray[np.float32]
    """(d,) of the training queries."""
    components: NDArray[np.float32]
    """(c, d) principal directions."""
    neighbours: NDArray[np.float32]
    """(N, d) training queries' vectors, scaled to length 1, in half precision on disk."""
    relative: NDArray[np.float32]
    """(N, A) their qualities minus the query's mean over arms; 0 where an arm doesn't compete."""
    has: BoolArray
    """(N, A) arms that competed."""
    k: int
    """How many neighbours are asked."""
    temperature: float
    """A neighbour at cosine c has weight ``exp(c / temperature)``."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file of weights holds; see :func:`array_shapes`."""
        return {
            "mean": self.mean,
            "components": self.components,
            "neighbours": self.neighbours.astype(np.float16),
            "relative": self.relative,
            "has": self.has,
        }

    @classmethod
    def of(
        cls, arrays: Mapping[str, NDArray[Any]], k: int | str, temperature: float | str
    ) -> QueryVectors:
        """Turn what :meth:`arrays` gave back into a record."""
        held = {name: arrays[name] for name in ARRAY_NAMES}
        held["neighbours"] = held["neighbours"].astype(np.float32)
        return cls(**held, k=int(k), temperature=float(temperature))

    def project(self, vectors: Embeddings) -> FloatArray:
        """(n, c) principal components."""
        return np.asarray((vectors - self.mean) @ self.components.T, dtype=np.float64)

    def similarities(self, vectors: Embeddings) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Rows of ``vectors``, some at a time, and their cosines (rows, N) to the neighbours."""
        step = max(1, _BLOCK_CELLS // len(self.neighbours))
        for begin in range(0, len(vectors), step):
            rows = slice(begin, min(begin + step, len(vectors)))
            yield rows, unit_rows(vectors[rows]) @ self.neighbours.T

    def nearby(self, vectors: Embeddings) -> FloatArray:
        """(n, A) weighted mean relative quality of the k nearest; 0 where none has the arm."""
        parts = [np.zeros((0, self.relative.shape[1]))]
        for _, similarity in self.similarities(vectors):
            places = nearest(similarity, self.k)
            near = np.take_along_axis(similarity, places, axis=1)
            closeness = (near - near.max(axis=1, keepdims=True)) / self.temperature
            weights = np.exp(closeness)[:, None, :]
            total = (weights @ self.relative[places])[:, 0]
            weight = (weights @ self.has[places].astype(np.float32))[:, 0]
            parts.append(np.divide(total, weight, out=np.zeros_like(total), where=weight > 0))
        return np.concatenate(parts).astype(np.float64)
