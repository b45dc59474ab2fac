"""Runs some arms, chosen by λ alone, and fuses their lists: by reciprocal ranks or tuned weights.

The simplest policies that answer with what several arms found: no trees, no encoder, a decision
within a millisecond. See :mod:`router.list_fusion` and :mod:`router.policies.over_arm_sets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from arms.errors import RouterError
from arms.records import Ranking
from arms.reward import FloatArray
from router.arm_sets import ArmSet, read_arm_set
from router.list_fusion import DocumentPrior, ListFusion
from router.policies.files import (
    POLICY,
    check_numbers,
    read_arrays,
    read_held,
    read_policy_json,
    sha256_of,
    well_described,
    write_arrays,
    write_policy_json,
)
from router.policies.over_arm_sets import OverArmSets
from router.policies.over_vectors import softmax_over
from router.policy import NO_INPUTS, Decisions, Plan, PolicyInputs, masked

_KEYS = ("name", "arms", "probe_depth", "tau", "arm_sets", "prior")
_PRIOR = "prior.safetensors"
_EMPTY = Ranking((), ())


class ListFusionPolicy(OverArmSets[ListFusion]):
    """Fuses what the arms of λ's set found.

    Args:
        name: in reports, e.g. ``tuned_fusion``.
        arms: the arms to choose from, in column order.
        arm_sets: among them every arm of ``arms`` alone, without a model.
        prior: of documents; None where no set reads it.
        probe_depth: how many documents of each arm are fused.
        tau: of the softmax that turns qualities into probabilities.

    Raises:
        RouterError: arm sets, arms and prior don't fit together.
    """

    kind: ClassVar[str] = "list_fusion"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        arm_sets: Sequence[ArmSet[ListFusion]],
        prior: DocumentPrior | None = None,
        probe_depth: int = 20,
        tau: float = 0.1,
    ) -> None:
        super().__init__(name, arms, arm_sets, probe_depth, tau)
        self.prior = prior
        self._last: dict[int, tuple[PolicyInputs, tuple[str, ...], Decisions]] = {}
        problems = self._problems()
        for arm_set in self.arm_sets:
            fusion = arm_set.model
            if fusion is not None and (fusion.arms != arm_set.arms or len(arm_set.arms) < 2):
                problems.append(f"a set of {', '.join(arm_set.arms)} fuses others")
            if fusion is not None and fusion.reads_prior and prior is None:
                problems.append("an arm set reads a document prior, and there is none")
        self._refuse(problems)

    @property
    def learns_documents(self) -> bool:
        """Whether it knows which documents were relevant to training queries."""
        return self.prior is not None

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) softmax of the mean quality of each arm alone / τ.

        Over the arms that are fused; where one answers, of the mean reward of each arm alone.
        """
        number = self.arm_set_at(lam)
        if self.arm_sets[number].model is None:
            return self._alone(lam, len(queries))
        return self.preferred(number, len(queries))

    def preferred(self, number: int, n: int) -> FloatArray:
        """(n, A) softmax over the arms of the set, by their mean quality alone / τ."""
        values = np.full(len(self.arms), -np.inf)
        for one in self.arm_sets:
            if one.model is None and one.arms[0] in self.arm_sets[number].arms:
                values[self.arms.index(one.arms[0])] = one.quality
        return softmax_over(np.tile(values, (n, 1)), self.tau)

    def merge(self, number: int, queries: Sequence[str], known: PolicyInputs) -> Decisions:
        """Fuse what the arms of the set found; see :meth:`OverArmSets.merge`.

        The last batch is remembered, as callers ask at several λ.
        """
        last = self._last.get(number)
        if last is not None and last[0] is known and last[1] == tuple(queries):
            return last[2]
        decided = self._fused(number, queries, known)
        if len(queries) > 1:  # of one, overhead is measured by asking again
            self._last[number] = (known, tuple(queries), decided)
        return decided

    def _fused(self, number: int, queries: Sequence[str], known: PolicyInputs) -> Decisions:
        arm_set = self.arm_sets[number]
        fusion = arm_set.model
        assert fusion is not None
        if known.probed is None:
            raise RouterError(
                f"the policy '{self.name}' fuses what {', '.join(arm_set.arms)} find; give their "
                "rankings (Known.probed), or choose a policy that runs one arm"
            )
        rows = masked(self.preferred(number, len(queries)), known)
        plans: list[Plan] = []
        rankings: list[Ranking | None] = []
        for row in range(len(queries)):
            ran, allowed = self._ran(arm_set, row, known)
            best = self.arms[int(rows[row].argmax())]
            if allowed and len(ran) > 1:
                plan = Plan((best, *(arm for arm in ran if arm != best)), "fuse")
                found = [known.probed[arm][row] if arm in ran else _EMPTY for arm in arm_set.arms]
                dataset = None if known.datasets is None else known.datasets[row]
                ranking = fusion.fuse(found, dataset, self.prior)
            else:
                others = tuple(arm for arm in ran if arm != best)
                plan = Plan((*others, best), "cascade" if others else "single")
                ranking = None
            plans.append(plan)
            rankings.append(ranking)
        return Decisions(tuple(plans), rows, rankings=tuple(rankings))

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and, where there is a prior, ``prior.safetensors``."""
        held = None
        if self.prior is not None:
            arrays = {"documents": self.prior.documents, "counts": self.prior.counts}
            write_arrays(folder / _PRIOR, arrays)
            held = sha256_of((folder / _PRIOR).read_bytes())
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "probe_depth": self.probe_depth,
            "tau": self.tau,
            "arm_sets": [one.describe(folder) for one in self.arm_sets],
            "prior": held,
        }
        write_policy_json(folder, self.kind, content)

    @classmethod
    def load(cls, folder: Path) -> ListFusionPolicy:
        """Read what :meth:`save` wrote; raise ``RouterError`` where it is damaged."""
        content = read_policy_json(folder, _KEYS)
        place = str(folder / POLICY)
        check_numbers(place, content, {"probe_depth": 1}, positive=("tau",))
        prior = None
        if content["prior"] is not None:
            read_held(folder / _PRIOR, content["prior"])
            arrays = read_arrays(folder / _PRIOR, {"documents": (None,), "counts": (None,)})
            prior = DocumentPrior(arrays["documents"], arrays["counts"])

        def read(
            _: Path, described: Mapping[str, Any], arms: tuple[str, ...], reads: bool
        ) -> ListFusion:
            return ListFusion.read(described, arms, prior is not None)

        with well_described(folder, "arm sets"):
            arm_sets = [
                read_arm_set(folder / f"set-{number}", one, read)
                for number, one in enumerate(content["arm_sets"])
            ]
            return cls(
                content["name"],
                content["arms"],
                arm_sets,
                prior,
                content["probe_depth"],
                float(content["tau"]),
            )
