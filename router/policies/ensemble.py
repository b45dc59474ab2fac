"""Ensembles of the policies beside them: the first that is sure enough, a majority, or a blend.

Source: UniversalRAG (arXiv 2504.20734, "Ensemble Strategy for Robust Routing"): a router's choice
where its confidence exceeds a threshold and a second router's otherwise; or the majority of three.
There ties are drawn; here the greater mean probability decides, so that the same query always has
the same answer. A blend multiplies what its members say (Hinton, Training Products of Experts by
Minimizing Contrastive Divergence, 2002).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from arms.errors import RouterError
from arms.reward import FloatArray
from router.policies.files import ascending_lams, read_policy_json, write_policy_json
from router.policies.gated import GatedPolicy
from router.policies.guarded import GuardedPolicy
from router.policy import NO_INPUTS, Decisions, Plan, Policy, PolicyInputs, masked
from router.policy_names import ROUTER

Rule = Literal["confidence", "majority", "blend"]
_FLOOR = 1e-4
_TIE_WEIGHT = 0.5
"""Of the mean probability beside whole votes: decides ties and nothing else."""


class EnsemblePolicy(Policy):
    """Decides by what its members would decide; members lie beside it in the artifact.

    Args:
        name: in reports, e.g. ``ensemble_majority``.
        members: at least two policies over the same arms that choose one arm and don't probe.
        rule: ``confidence``: the first member whose greatest probability exceeds the threshold
            answers, or else the last; ``majority``: the arm most members choose; ``blend``: the
            greatest geometric mean of the members' probabilities.
        thresholds: λ → threshold, the nearest λ's counts; needed for ``confidence``.

    Raises:
        RouterError: members don't fit together, or thresholds are missing.
    """

    kind: ClassVar[str] = "ensemble"

    def __init__(
        self,
        name: str,
        members: Sequence[Policy],
        rule: Rule,
        thresholds: Mapping[float, float] | None = None,
    ) -> None:
        self.name, self.members, self.rule = name, tuple(members), rule
        if len(self.members) < 2 or len({one.arms for one in self.members}) > 1:
            raise RouterError(f"ensemble '{name}' needs at least two members over the same arms")
        probing = [one.name for one in self.members if one.probes]
        if probing:
            raise RouterError(f"ensemble '{name}' can't hold {', '.join(probing)}: they probe")
        if rule == "confidence" and not thresholds:
            raise RouterError(f"ensemble '{name}' needs a threshold for at least one lam")
        self.arms = self.members[0].arms
        read = {one.frozen_encoder(): one.queries for one in reversed(self.members) if one.queries}
        self.queries = next(iter(read.values())) if len(read) == 1 else None
        """That of all members that read query vectors; None where they differ."""
        self.thresholds = {float(lam): value for lam, value in (thresholds or {}).items()}
        trained = [set(one.lams) for one in self.members if one.lams is not None]
        shared = set.intersection(*trained) if trained else None
        if shared is not None and not shared:
            raise RouterError(f"ensemble '{name}' has members without a common lam")
        self.lams = None if shared is None else ascending_lams(shared)

    def prepare(self, lam: float) -> None:
        """Load what the members need."""
        for one in self.members:
            one.device = self.device
            one.prepare(one.nearest_lam(lam))

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) the answering member's, shares of the votes, or the blend."""
        unmasked = replace(known, competes=None, preference=None)
        return self._rows(queries, lam, unmasked)

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Choose among the arms that compete: members vote for none but those."""
        rows = self._rows(queries, lam, known)
        chosen = rows.argmax(axis=1).tolist() if len(rows) else []
        return Decisions(tuple(Plan((self.arms[column],)) for column in chosen), rows)

    def member_rows(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> list[FloatArray]:
        """(n, A) of each member; queries are embedded once for all that share an encoder."""
        with_vectors = self.with_vectors(queries, lam, known)
        without = replace(known, embeddings=None)
        rows = []
        for one in self.members:
            given = with_vectors if self.queries is not None and one.queries else without
            rows.append(masked(one.probabilities(queries, one.nearest_lam(lam), given), known))
        return rows

    def threshold(self, lam: float) -> float:
        """Return the threshold of the nearest λ, ties downwards."""
        near = min(self.thresholds, key=lambda known: (round(abs(known - lam), 12), known))
        return self.thresholds[near]

    def _rows(self, queries: Sequence[str], lam: float, known: PolicyInputs) -> FloatArray:
        return self.combine(self.member_rows(queries, lam, known), lam)

    def combine(self, rows: Sequence[FloatArray], lam: float) -> FloatArray:
        """(n, A) from the rows (n, A) of each member, in the members' order."""
        if self.rule == "majority":
            return majority(rows)
        if self.rule == "blend":
            return blend(rows)
        return first_sure(rows, self.threshold(lam))

    def save(self, folder: Path) -> None:
        """Write ``policy.json``: the members' names, whose folders lie beside this one."""
        content: dict[str, Any] = {
            "name": self.name,
            "rule": self.rule,
            "members": [one.name for one in self.members],
            "thresholds": [[lam, value] for lam, value in sorted(self.thresholds.items())],
        }
        write_policy_json(folder, self.kind, content)

    @classmethod
    def load(cls, folder: Path) -> EnsemblePolicy:
        """Read what :meth:`save` wrote, and the members from beside ``folder``."""
        from router.artifact import policy_folder
        from router.policies import load_policy

        content = read_policy_json(folder, ("name", "rule", "members", "thresholds"))
        router_folder = next(one.parent for one in folder.parents if one.name == "policies")
        members = []
        for name in content["members"]:
            own = policy_folder(router_folder, name)
            # The default policy's folder holds the policy that it asks, which has no other.
            there = own if own.is_dir() else policy_folder(router_folder, ROUTER)
            members.append(_unguarded(load_policy(there)))
        thresholds = {float(lam): float(value) for lam, value in content["thresholds"]}
        return cls(content["name"], members, content["rule"], thresholds)


def _unguarded(policy: Policy) -> Policy:
    """Return the policy that was put in: gates or a guard may have been put before it since."""
    while isinstance(policy, GatedPolicy | GuardedPolicy):
        policy = policy.inner
    return policy


def majority(rows: Sequence[FloatArray]) -> FloatArray:
    """(n, A) shares of the members' votes; equal votes are decided by the mean probability.

    Each member votes for its most probable arm, ties to the earlier one.
    """
    stacked = np.stack(rows)
    votes = np.eye(stacked.shape[2])[stacked.argmax(axis=2)].sum(axis=0)
    together: FloatArray = votes + _TIE_WEIGHT * stacked.mean(axis=0)
    return together / (len(rows) + _TIE_WEIGHT)


def blend(rows: Sequence[FloatArray]) -> FloatArray:
    """(n, A) geometric mean of the members' probabilities, scaled to sum to 1.

    An arm that any member rules out altogether keeps a floor of ``_FLOOR``, unless all rule it out.
    """
    stacked = np.stack(rows)
    logs = np.log(np.maximum(stacked, _FLOOR)).mean(axis=0)
    together = np.where(stacked.max(axis=0) > 0.0, np.exp(logs), 0.0)
    shares: FloatArray = together / together.sum(axis=1, keepdims=True)
    return shares


def first_sure(rows: Sequence[FloatArray], threshold: float) -> FloatArray:
    """(n, A) rows of the first member whose greatest probability exceeds ``threshold``.

    Where none does, the last member's.
    """
    answer = rows[-1].copy()
    for member in reversed(rows[:-1]):
        sure = member.max(axis=1, initial=0.0) > threshold
        answer[sure] = member[sure]
    return answer
