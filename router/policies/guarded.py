"""A policy that hands queries unlike its training queries to the best static arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.reward import BoolArray, FloatArray, reward
from router.domain import Domain
from router.policies.files import read_arrays, read_policy_json, write_arrays, write_policy_json
from router.policy import NO_INPUTS, Decisions, Embeddings, Plan, Policy, PolicyInputs

INNER = "inner"
DOMAIN = "domain.safetensors"


class GuardedPolicy(Policy):
    """Decides as ``inner`` does, except on queries farther from training than the threshold.

    Those get the arm with the best mean reward at λ; probes have been run by then and stay in the
    plan. The query is embedded once, for both.

    Args:
        name: in reports.
        inner: a policy that reads query vectors, a frozen encoder's or its own.
        domain: of the queries that ``inner`` was trained on.
        quality: (A,) mean of each arm over training and validation queries; 0 counts for a query
            whose dataset lacks the arm.
        latency_share: (A,) mean normalised latency over the same queries; 1 for a lacking one.

    Raises:
        RouterError: ``inner`` reads no such vectors, or the means don't fit its arms.
    """

    kind: ClassVar[str] = "guarded"

    def __init__(
        self,
        name: str,
        inner: Policy,
        domain: Domain,
        quality: FloatArray,
        latency_share: FloatArray,
    ) -> None:
        if not inner.reads_vectors:
            raise RouterError(
                f"the policy '{inner.name}' reads no query vectors that tell how far a query lies "
                "from its training; guard one that does"
            )
        self.name, self.inner, self.domain = name, inner, domain
        self.queries = inner.queries
        self.arms, self.lams = inner.arms, inner.lams
        self.probes, self.probe_depth = inner.probes, inner.probe_depth
        if quality.shape != (len(self.arms),) or latency_share.shape != (len(self.arms),):
            raise RouterError(f"policy '{name}' needs a mean for each of {', '.join(self.arms)}")
        self._quality, self._latency_share = quality, latency_share

    @property
    def learns_documents(self) -> bool:
        """Whether the inner policy does."""
        return self.inner.learns_documents

    @property
    def display_name(self) -> str:
        """Its kind, then the inner policy's."""
        return f"{self.kind} {self.inner.display_name}"

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)); 1 for the fallback arm where a query is foreign."""
        unmasked = replace(known, competes=None, preference=None)
        return self.decide(queries, lam, unmasked).probabilities

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """See :class:`Policy`; each foreign query has its reason."""
        known = self.with_vectors(queries, lam, known)
        decided = self.inner.decide(queries, lam, known)
        if known.embeddings is None or not len(queries):
            return decided
        distances = self.domain.distances(known.embeddings)
        foreign = np.flatnonzero(distances > self.domain.threshold)
        if not len(foreign):
            return decided
        arms = self._fallback_arms(lam, known.competes, len(queries))
        plans, rows = list(decided.plans), decided.probabilities.copy()
        reasons = list(decided.reasons or (None,) * len(queries))
        quality = None if decided.predicted_quality is None else decided.predicted_quality.copy()
        for row in foreign.tolist():
            column = int(arms[row])
            plans[row] = self._plan(plans[row], self.arms[column])
            rows[row] = np.eye(len(self.arms))[column]
            reasons[row] = (
                f"out of domain: distance {distances[row]:.2f} over {self.domain.threshold:.2f}; "
                f"fell back on {self.arms[column]}"
            )
            if quality is not None:
                quality[row] = self._quality[column]
        return Decisions(tuple(plans), rows, quality, tuple(reasons))

    def _fallback_arms(self, lam: float, competes: BoolArray | None, n: int) -> FloatArray:
        """(n,) column of the allowed arm with the best mean reward at ``lam``."""
        rewards = np.tile(reward(self._quality, self._latency_share, lam), (n, 1))
        return np.asarray(
            (rewards if competes is None else np.where(competes, rewards, -np.inf)).argmax(axis=1)
        )

    def _plan(self, plan: Plan, arm: str) -> Plan:
        """Answer with ``arm``; the probes of ``plan`` were run and are paid for."""
        ran = tuple(one for one in plan.arms if one in self.probes and one != arm)
        return Plan((*ran, arm), "cascade" if ran else "single")

    def frozen_encoder(self) -> str | None:
        """Return the inner policy's."""
        return self.inner.frozen_encoder()

    @property
    def reads_vectors(self) -> bool:
        """It does, the inner policy's."""
        return True

    def embed(self, queries: Sequence[str], lam: float) -> Embeddings | None:
        """(n, d) the inner policy's query vectors."""
        self.inner.device = self.device
        return self.inner.embed(queries, lam)

    def prepare(self, lam: float) -> None:
        """Load what the inner policy needs."""
        self.inner.device = self.device
        self.inner.prepare(lam)

    def save(self, folder: Path) -> None:
        """Write ``policy.json``, ``domain.safetensors`` and the inner policy into ``inner/``."""
        content = {
            "name": self.name,
            "threshold": self.domain.threshold,
            "false_alarm_rate": self.domain.false_alarm_rate,
        }
        write_policy_json(folder, self.kind, content)
        arrays: dict[str, NDArray[Any]] = {
            "vectors": self.domain.vectors,
            "quality": self._quality,
            "latency_share": self._latency_share,
        }
        write_arrays(folder / DOMAIN, arrays)
        (folder / INNER).mkdir()
        self.inner.save(folder / INNER)

    @classmethod
    def load(cls, folder: Path) -> GuardedPolicy:
        """Read what :meth:`save` wrote."""
        from router.policies import load_policy

        content = read_policy_json(folder, ("name", "threshold", "false_alarm_rate"))
        inner = load_policy(folder / INNER)
        n_arms = len(inner.arms)
        arrays = read_arrays(
            folder / DOMAIN,
            {"vectors": (None, None), "quality": (n_arms,), "latency_share": (n_arms,)},
        )
        domain = Domain(
            arrays["vectors"].astype(np.float16),
            float(content["threshold"]),
            float(content["false_alarm_rate"]),
        )
        return cls(content["name"], inner, domain, arrays["quality"], arrays["latency_share"])
