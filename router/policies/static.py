"""Always the same arm, or one per λ: the baselines, and a router that needs numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from arms.errors import RouterError
from arms.reward import FloatArray
from router.policies.files import ascending_lams, read_policy_json, write_policy_json
from router.policy import NO_INPUTS, Policy, PolicyInputs


class StaticPolicy(Policy):
    """Probability 1 on one arm, whatever the query.

    Args:
        name: in reports, e.g. ``static:bm25`` or ``best_static``.
        arms: the arms to choose from, in column order.
        choice: one arm for every λ, or a table λ → arm.

    Raises:
        RouterError: a chosen arm is not among ``arms``, or the table is empty.
    """

    kind: ClassVar[str] = "static"

    def __init__(self, name: str, arms: Sequence[str], choice: str | Mapping[float, str]) -> None:
        self.name = name
        self.arms = tuple(arms)
        self.lams = None if isinstance(choice, str) else ascending_lams(choice)
        table = {None: choice} if isinstance(choice, str) else dict(choice)
        unknown = sorted(set(table.values()) - set(self.arms))
        if unknown:
            raise RouterError(
                f"policy '{name}' chooses from {', '.join(self.arms)}; got {', '.join(unknown)}"
            )
        self._choice = choice
        self._column = {lam: self.arms.index(arm) for lam, arm in table.items()}

    def probabilities(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> FloatArray:
        """(len(queries), len(arms)) rows with a single 1."""
        column = self._column[None if self.lams is None else self.nearest_lam(lam)]
        rows = np.zeros((len(queries), len(self.arms)))
        rows[:, column] = 1.0
        return rows

    def save(self, folder: Path) -> None:
        """Write ``policy.json``; there are no weights."""
        choice = self._choice
        table = (
            choice
            if isinstance(choice, str)
            else [[float(lam), choice[lam]] for lam in sorted(choice)]
        )
        content = {"name": self.name, "arms": list(self.arms), "choice": table}
        write_policy_json(folder, self.kind, content)

    @classmethod
    def load(cls, folder: Path) -> StaticPolicy:
        """Read what :meth:`save` wrote."""
        content = read_policy_json(folder, ("name", "arms", "choice"))
        choice = content["choice"]
        table = choice if isinstance(choice, str) else {float(lam): arm for lam, arm in choice}
        return cls(content["name"], content["arms"], table)
