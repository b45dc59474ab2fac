"""A contextual bandit: per arm, a linear estimate of quality, learned from logged outcomes alone.

In the manner of MBA-RAG (arXiv 2412.01572): each arm's outcome is regressed on the query's vector,
from logs that show one arm's outcome per query, and the arm with the greatest estimated reward is
chosen. The reward's latency part is each arm's mean latency in the log, so any λ may be asked for.
Where MBA-RAG fine-tunes the encoder, this one is frozen, and each arm's estimate is a ridge
regression in which an outcome counts by the inverse of the probability of having been logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.reward import BoolArray, FloatArray, normalised_latency, reward
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.policies.encoder import LinearHead
from router.policies.files import (
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policies.over_vectors import VectorPolicy, softmax_over
from router.policy import Embeddings


class BanditPolicy(VectorPolicy):
    """Estimated reward per arm; an arm that was never logged is never chosen.

    Args:
        name: in reports, e.g. ``bandit``.
        arms: the arms to choose from, in column order.
        queries: the frozen encoder.
        quality: (A, d) and (A,): estimates of each arm's quality.
        latency_ms: (A,) mean latency in the log; what stands at an arm never logged isn't read.
        logged: (A,) how many outcomes of the arm were learned from.
        tau: of the softmax that turns rewards into probabilities.

    Raises:
        RouterError: shapes don't fit, or no arm was logged.
    """

    kind: ClassVar[str] = "bandit"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        queries: FrozenQueries,
        quality: LinearHead,
        latency_ms: FloatArray,
        logged: NDArray[np.int64],
        tau: float,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), None
        self.queries, self.quality, self.tau = queries, quality, tau
        self.latency_ms, self.logged = latency_ms, logged
        shape = (len(self.arms),)
        if not quality.bias.shape == latency_ms.shape == logged.shape == shape or not logged.any():
            raise RouterError(
                f"policy '{name}' needs estimates of {len(self.arms)} arms and at least one logged "
                f"outcome, got {quality.bias.shape}, {latency_ms.shape} and {logged.tolist()}"
            )

    def judge(
        self, vectors: Embeddings, lam: float, competes: BoolArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return the softmax of estimated rewards, and estimated quality within [0, 1].

        Latency is normalised over the arms that compete and were logged.
        """
        known = np.tile(self.logged > 0, (len(vectors), 1))
        if competes is not None:
            known &= competes
        estimate = vectors.astype(np.float64) @ self.quality.weight.T.astype(np.float64)
        quality = np.clip(estimate + self.quality.bias, 0.0, 1.0)
        share = normalised_latency(np.tile(self.latency_ms, (len(vectors), 1)), known)
        rewards = np.where(known, reward(quality, share, lam), -np.inf)
        return softmax_over(rewards, self.tau), quality

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and ``estimates.safetensors``."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "tau": self.tau,
            **self.queries.describe(),
        }
        write_policy_json(folder, self.kind, content)
        arrays: dict[str, NDArray[Any]] = {
            "weight": self.quality.weight,
            "bias": self.quality.bias,
            "latency_ms": self.latency_ms,
            "logged": self.logged,
        }
        write_arrays(folder / "estimates.safetensors", arrays)

    @classmethod
    def load(cls, folder: Path) -> BanditPolicy:
        """Read what :meth:`save` wrote."""
        content = read_policy_json(folder, ("name", "arms", "tau", *ENCODER_KEYS))
        arms = (len(content["arms"]),)
        arrays = read_arrays(
            folder / "estimates.safetensors",
            {"weight": (*arms, None), "bias": arms, "latency_ms": arms, "logged": arms},
        )
        return cls(
            content["name"],
            content["arms"],
            FrozenQueries.read(content),
            LinearHead(arrays["weight"], arrays["bias"]),
            arrays["latency_ms"],
            arrays["logged"],
            content["tau"],
        )
