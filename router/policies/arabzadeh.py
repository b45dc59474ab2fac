"""Stay on the cheapest arm or escalate: Arabzadeh et al. 2021 over any number of arms.

Source: "Predicting efficiency/effectiveness trade-offs for dense vs. sparse retrieval strategy
selection" (CIKM 2021), as RetrievalRouter (arXiv 2608.25625, section 5.2) extends it: a classifier
is trained on hard labels, the cheapest arm with a relevant result first. A query stays on the
cheapest arm where the classifier gives that a probability of at least a threshold; otherwise it
goes to the most probable other arm. The threshold is set by a budget, the share of queries that
escalate, and the budget by λ = 1 − budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from arms.errors import RouterError
from arms.reward import BoolArray, FloatArray, check_lam
from router.frozen_queries import ENCODER_KEYS, FrozenQueries
from router.policies.encoder import LinearHead
from router.policies.files import (
    read_arrays,
    read_policy_json,
    write_arrays,
    write_policy_json,
)
from router.policies.over_vectors import VectorPolicy
from router.policy import NO_INPUTS, Decisions, Embeddings, Plan, PolicyInputs, masked


def escalation_threshold(held_out: FloatArray, lam: float) -> float:
    """Return the P(cheapest) below which a query escalates, for a budget of 1 − λ.

    ``held_out`` (n,) are P(cheapest) of held-out queries: the share of them below the threshold
    is the budget. λ = 0 escalates every query, λ = 1 none.
    """
    budget = 1.0 - check_lam(lam)
    if budget == 1.0:
        return np.inf
    return -np.inf if budget == 0.0 else float(np.quantile(held_out, budget))


class ArabzadehPolicy(VectorPolicy):
    """A hard-label classifier with a threshold on the cheapest arm; takes any λ.

    Args:
        name: in reports, e.g. ``arabzadeh``.
        arms: the arms to choose from, in column order.
        queries: the frozen encoder.
        head: the classifier.
        cheapest: the arm with the lowest mean latency in training.
        held_out: (n,) P(cheapest) on held-out queries; n ≥ 1.
        success: what counted as a relevant result first, for the record.

    Raises:
        RouterError: ``cheapest`` isn't among the arms, or ``held_out`` is empty.
    """

    kind: ClassVar[str] = "arabzadeh"

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        queries: FrozenQueries,
        head: LinearHead,
        cheapest: str,
        held_out: FloatArray,
        success: str,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), None
        self.queries, self.head, self.cheapest, self.success = queries, head, cheapest, success
        self.held_out = np.sort(np.asarray(held_out, dtype=np.float64))
        if cheapest not in self.arms or not len(self.held_out):
            raise RouterError(
                f"policy '{name}' needs a cheapest arm among {', '.join(self.arms)} and at least "
                f"one held-out probability, got '{cheapest}' and {len(self.held_out)}"
            )

    def judge(
        self, vectors: Embeddings, lam: float, competes: BoolArray | None
    ) -> tuple[FloatArray, None]:
        """Return the classifier's probabilities, the same at every λ."""
        return self.head.probabilities(vectors), None

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Stay or escalate; ties between the other arms go to the earlier one.

        Where only the cheapest arm competes a query stays, and where it doesn't, it escalates.
        """
        rows = self.probabilities(queries, lam, known)
        column = self.arms.index(self.cheapest)
        threshold = escalation_threshold(self.held_out, lam)
        escalates = rows[:, column] < threshold
        rows = masked(rows, known)
        may = np.ones(rows.shape, dtype=bool) if known.competes is None else known.competes
        others = may & (np.arange(len(self.arms)) != column)
        best_other = np.where(others, rows, -1.0).argmax(axis=1) if len(rows) else []
        escalates = (escalates & others.any(axis=1)) | ~may[:, column]
        chosen = np.where(escalates, best_other, column)
        forced = chosen != (rows.argmax(axis=1) if len(rows) else [])
        why = (
            (f"escalated: no budget is kept back at lam {lam:g}",) * 2
            if threshold == np.inf
            else (
                f"kept on {self.cheapest}: its probability is at least {threshold:.3g}",
                f"escalated: the probability of {self.cheapest} is below {threshold:.3g}",
            )
        )
        return Decisions(
            tuple(Plan((self.arms[place],)) for place in chosen.tolist()),
            rows,
            reasons=tuple(
                why[int(up)] if told else None for up, told in zip(escalates, forced, strict=True)
            ),
        )

    def save(self, folder: Path) -> None:
        """Write ``policy.json`` and ``head.safetensors``."""
        content = {
            "name": self.name,
            "arms": list(self.arms),
            "cheapest": self.cheapest,
            "success": self.success,
            **self.queries.describe(),
        }
        write_policy_json(folder, self.kind, content)
        head: dict[str, NDArray[Any]] = {"weight": self.head.weight, "bias": self.head.bias}
        write_arrays(folder / "head.safetensors", head | {"held_out": self.held_out})

    @classmethod
    def load(cls, folder: Path) -> ArabzadehPolicy:
        """Read what :meth:`save` wrote."""
        content = read_policy_json(folder, ("name", "arms", "cheapest", "success", *ENCODER_KEYS))
        arms = len(content["arms"])
        arrays = read_arrays(
            folder / "head.safetensors",
            {"weight": (arms, None), "bias": (arms,), "held_out": (None,)},
        )
        return cls(
            content["name"],
            content["arms"],
            FrozenQueries.read(content),
            LinearHead(arrays["weight"], arrays["bias"]),
            content["cheapest"],
            arrays["held_out"],
            content["success"],
        )
