"""Policies over the query vectors of a frozen encoder: what they share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from arms.reward import BoolArray, FloatArray
from router.frozen_queries import FrozenQueries
from router.policy import NO_INPUTS, Decisions, Embeddings, Plan, Policy, PolicyInputs, masked


class VectorPolicy(Policy):
    """Decides from the query's vector alone; embeds it where the caller hasn't.

    Subclasses set ``name``, ``arms``, ``lams`` and ``queries``.
    """

    queries: FrozenQueries

    @abstractmethod
    def judge(
        self, vectors: Embeddings, lam: float, competes: BoolArray | None
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return (n, A) rows that sum to 1, and (n, A) the quality expected of each arm or None.

        ``vectors`` (n, d); ``competes`` (n, A) may be used, and is applied to the rows afterwards.
        """

    def prepare(self, lam: float) -> None:
        """Load torch and the encoder."""
        self.queries.load(self.device)

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) rows that sum to 1."""
        return self.judge(self._vectors(queries, known), lam, None)[0]

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Choose the most probable arm that competes; see :meth:`Policy.decide`."""
        rows, quality = self.judge(self._vectors(queries, known), lam, known.competes)
        rows = masked(rows, known)
        chosen = rows.argmax(axis=1) if len(rows) else np.zeros(0, dtype=np.intp)
        return Decisions(
            tuple(Plan((self.arms[column],)) for column in chosen.tolist()),
            rows,
            None if quality is None else quality[np.arange(len(chosen)), chosen],
        )

    def _vectors(self, queries: Sequence[str], known: PolicyInputs) -> Embeddings:
        given = known.embeddings
        return self.queries.embed(queries, self.device) if given is None else given


def softmax_over(values: FloatArray, tau: float) -> FloatArray:
    """(n, A) softmax of values / τ; −inf gets 0, a row of −inf alone is uniform.

    Its argmax is that of ``values``: τ only shapes how sure the policy says it is.
    """
    highest = values.max(axis=1, keepdims=True, initial=-np.inf)
    known = np.isfinite(highest)
    weights = np.where(known, np.exp((values - np.where(known, highest, 0.0)) / tau), 1.0)
    shares: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return shares
