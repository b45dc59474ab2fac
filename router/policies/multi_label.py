"""Every arm that is likely enough, fused: UniversalRAG's multi-label router on arms.

Source: UniversalRAG (arXiv 2504.20734, appendix B): a sigmoid per route, trained with binary
cross-entropy on multi-hot targets; every route above a threshold of 0.8 is searched and the results
are fused. Where none is above it, the most probable arm answers alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from arms.errors import RouterError
from arms.reward import BoolArray, FloatArray
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.policies.encoder import LinearHead
from router.policies.files import (
    ascending_lams,
    lam_folder_name,
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policies.over_vectors import VectorPolicy
from router.policy import NO_INPUTS, Decisions, Embeddings, Plan, PolicyInputs, masked

Fusions = Mapping[str, Sequence[str]]
"""Arm that fuses others → the arms it fuses."""


class MultiLabelPolicy(VectorPolicy):
    """A sigmoid per arm and λ; the arms above the threshold are fused.

    Args:
        name: in reports, e.g. ``multi_label``.
        arms: the arms to choose from, in column order.
        queries: the frozen encoder.
        heads: λ → logits of the arms.
        threshold: in (0, 1).
        fusions: arms that are themselves a fusion of others. A set that one of them fuses is
            answered by it.
        only_fusions: of several arms above the threshold, fuse only such a set: the most probable
            of the fusions whose arms are all above it, or else the most probable arm alone. So
            every answer is one of an arm that was labelled.

    Raises:
        RouterError: ``threshold`` lies outside (0, 1), or a head's shape doesn't fit.
    """

    kind: ClassVar[str] = "multi_label"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        queries: FrozenQueries,
        heads: Mapping[float, LinearHead],
        threshold: float,
        fusions: Fusions,
        only_fusions: bool,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), ascending_lams(heads)
        self.queries, self.threshold, self.only_fusions = queries, threshold, only_fusions
        self._heads = {float(lam): head for lam, head in heads.items()}
        self.fusions = {arm: tuple(parts) for arm, parts in fusions.items() if arm in self.arms}
        fits = all(head.bias.shape == (len(self.arms),) for head in self._heads.values())
        if not (0.0 < threshold < 1.0 and fits):
            raise RouterError(
                f"policy '{name}' needs a threshold in (0, 1) and heads over {len(self.arms)} "
                f"arms, got {threshold} and {[head.bias.shape for head in self._heads.values()]}"
            )

    def sigmoids(self, vectors: Embeddings, lam: float) -> FloatArray:
        """(n, A) independent probabilities; rows don't sum to 1."""
        head = self._heads[self.nearest_lam(lam)]
        logits = vectors.astype(np.float64) @ head.weight.T.astype(np.float64) + head.bias
        probabilities: FloatArray = 0.5 * (1.0 + np.tanh(0.5 * logits))  # never overflows
        return probabilities

    def judge(
        self, vectors: Embeddings, lam: float, competes: BoolArray | None
    ) -> tuple[FloatArray, None]:
        """Return the sigmoids, scaled to sum to 1."""
        sigmoids = np.maximum(self.sigmoids(vectors, lam), 1e-12)
        return sigmoids / sigmoids.sum(axis=1, keepdims=True), None

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Fuse every competing arm above the threshold, the most probable first."""
        vectors = self._vectors(queries, known)
        sigmoids = self.sigmoids(vectors, lam)
        rows = masked(self.judge(vectors, lam, known.competes)[0], known)
        above = sigmoids > self.threshold
        if known.competes is not None:
            above &= known.competes
        plans, reasons = [], []
        for row, passed in zip(rows, above, strict=True):
            plan = self._plan(row, passed)
            plans.append(plan)
            alone = plan == Plan((self.arms[int(row.argmax())],))
            named = ", ".join(self.arms[column] for column in np.flatnonzero(passed))
            reasons.append(None if alone else f"above {self.threshold:g}: {named}")
        return Decisions(tuple(plans), rows, reasons=tuple(reasons))

    def _plan(self, row: FloatArray, above: BoolArray) -> Plan:
        best_first = [int(column) for column in np.argsort(-row, kind="stable")]
        names = [self.arms[column] for column in best_first if above[column]]
        if len(names) < 2:
            return Plan((self.arms[best_first[0]],))
        there = {arm: set(parts) for arm, parts in self.fusions.items() if self._competes(arm, row)}
        for arm, parts in there.items():
            if parts == set(names) - {arm}:
                return Plan((arm,))
        if not self.only_fusions:
            return Plan(tuple(names), "fuse")
        whole = [arm for arm, parts in there.items() if parts <= set(names)]
        return Plan((max(whole, key=lambda arm: row[self.arms.index(arm)]) if whole else names[0],))

    def _competes(self, arm: str, row: FloatArray) -> bool:
        return bool(row[self.arms.index(arm)] > 0.0)  # masked rows are 0 there

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and a head per λ."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "lams": list(self.lams or ()),
            "threshold": self.threshold,
            "fusions": {arm: list(parts) for arm, parts in self.fusions.items()},
            "only_fusions": self.only_fusions,
            **self.queries.describe(),
        }
        write_policy_json(folder, self.kind, content)
        for lam, head in self._heads.items():
            arrays = {"weight": head.weight, "bias": head.bias}
            write_arrays(folder / lam_folder_name(lam) / "head.safetensors", arrays)

    @classmethod
    def load(cls, folder: Path) -> MultiLabelPolicy:
        """Read what :meth:`save` wrote."""
        keys = ("name", "arms", "lams", "threshold", "fusions", "only_fusions")
        content = read_policy_json(folder, (*keys, *ENCODER_KEYS))
        arms = len(content["arms"])
        shapes = {"weight": (arms, None), "bias": (arms,)}
        heads = {
            float(lam): LinearHead(
                **read_arrays(folder / lam_folder_name(lam) / "head.safetensors", shapes)
            )
            for lam in content["lams"]
        }
        return cls(
            content["name"],
            content["arms"],
            FrozenQueries.read(content),
            heads,
            content["threshold"],
            content["fusions"],
            content["only_fusions"],
        )
