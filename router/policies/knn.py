"""k nearest neighbours: what each arm earned on the training queries most like this one.

A query has the mean reward of its k nearest neighbours by cosine, at whatever λ is asked for. An
arm that none of them had is unknown. No text of a training query is stored, only its vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.reward import BoolArray, FloatArray, normalised_latency, reward
from router.domain import unit_rows
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.policies.files import (
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policies.over_vectors import VectorPolicy, softmax_over
from router.policy import Embeddings

_BLOCK_CELLS = 1 << 23
"""Similarities held at a time."""


def nearest(similarity: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """(n, k) columns of the k greatest of each row, ascending; ties at the edge: earlier columns.

    ``k`` is at least 1; where it exceeds the columns, all are returned.
    """
    k = min(k, similarity.shape[1])
    edge = np.partition(similarity, -k, axis=1)[:, -k][:, None]
    marked = similarity >= edge
    tied = np.flatnonzero(marked.sum(axis=1) > k)
    above, level = similarity[tied] > edge[tied], similarity[tied] == edge[tied]
    room = k - above.sum(axis=1, keepdims=True)
    marked[tied] = above | (level & (level.cumsum(axis=1) <= room))
    return np.nonzero(marked)[1].reshape(len(similarity), k)


class KnnPolicy(VectorPolicy):
    """Mean reward of the k nearest training queries.

    Args:
        name: in reports, e.g. ``knn``.
        arms: the arms to choose from, in column order.
        queries: the frozen encoder.
        vectors: (N, d) of the training queries; kept as float16 rows of length 1, which float16
            vectors already are.
        quality: (N, A); what stands where an arm doesn't compete is never read.
        latency_ms: (N, A), likewise.
        competes: (N, A).
        k: how many neighbours.
        tau: of the softmax that turns rewards into probabilities.

    Raises:
        RouterError: shapes don't fit, or k is not within 1 … N.
    """

    kind: ClassVar[str] = "knn"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        queries: FrozenQueries,
        vectors: NDArray[np.floating],
        quality: FloatArray,
        latency_ms: FloatArray,
        competes: BoolArray,
        k: int,
        tau: float,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), None
        self.queries, self.k, self.tau = queries, k, tau
        shape = (len(vectors), len(self.arms))
        if not quality.shape == latency_ms.shape == competes.shape == shape or not 1 <= k <= len(
            vectors
        ):
            raise RouterError(
                f"policy '{name}' needs quality, latency and competes of {shape[0]}×{shape[1]} and "
                f"k from 1 to {shape[0]}, got {quality.shape}, {latency_ms.shape}, "
                f"{competes.shape} and k = {k}"
            )
        unit = vectors if vectors.dtype == np.float16 else unit_rows(vectors)
        self._stored = unit.astype(np.float16)
        self._unit = self._stored.astype(np.float32)
        self._competes = competes
        self._quality = np.where(competes, quality, 0.0).astype(np.float32)
        self._latency_ms = np.where(competes, latency_ms, 0.0).astype(np.float32)
        share = normalised_latency(self._latency_ms.astype(np.float64), competes)
        # One gather gives competes, quality and share of all neighbours.
        self._columns = np.hstack(
            [competes, self._quality, np.where(competes, share, 0.0)], dtype=np.float64
        )

    def outcomes(self, vectors: Embeddings) -> tuple[FloatArray, FloatArray]:
        """(n, A) mean quality and mean normalised latency of neighbours; NaN where none has it."""
        parts = [np.zeros((0, self._columns.shape[1]))]
        unit = unit_rows(vectors)
        step = max(1, _BLOCK_CELLS // len(self._unit))
        for begin in range(0, len(unit), step):
            found = nearest(unit[begin : begin + step] @ self._unit.T, self.k)
            parts.append(self._columns[found].sum(axis=1))
        count, quality, share = np.split(np.concatenate(parts), 3, axis=1)
        missing = np.full_like(quality, np.nan)
        return (
            np.divide(quality, count, out=missing, where=count > 0),
            np.divide(share, count, out=missing.copy(), where=count > 0),
        )

    def judge(
        self, vectors: Embeddings, lam: float, competes: BoolArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the softmax of the neighbours' mean rewards, and their mean quality.

        An arm that none of the neighbours has gets probability 0.
        """
        quality, share = self.outcomes(vectors)
        mean = reward(quality, share, lam)
        return softmax_over(np.where(np.isnan(mean), -np.inf, mean), self.tau), quality

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and ``neighbours.safetensors``."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "k": self.k,
            "tau": self.tau,
            **self.queries.describe(),
        }
        write_policy_json(folder, self.kind, content)
        write_arrays(
            folder / "neighbours.safetensors",
            {
                "vectors": self._stored,
                "quality": self._quality,
                "latency_ms": self._latency_ms,
                "competes": self._competes,
            },
        )

    @classmethod
    def load(cls, folder: Path) -> KnnPolicy:
        """Read what :meth:`save` wrote."""
        content = read_policy_json(folder, ("name", "arms", "k", "tau", *ENCODER_KEYS))
        shape = (None, len(content["arms"]))
        arrays = read_arrays(
            folder / "neighbours.safetensors",
            {
                "vectors": (None, None),
                "quality": shape,
                "latency_ms": shape,
                "competes": shape,
            },
        )
        queries = FrozenQueries.read(content)
        return cls(
            content["name"], content["arms"], queries, **arrays, k=content["k"], tau=content["tau"]
        )
