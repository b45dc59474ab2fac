"""Policies that run a set of arms, chosen by λ alone: what they share.

An *arm set* is run together, and the policy ranks anew what its arms found. Every arm alone, its
ranking left as it is, is a set too. On held-out queries each set has a mean quality and a mean
share of latency, so its mean reward at any λ is known before a query comes:
``(1−λ)·quality + λ·(1 − share)``, and the highest is taken.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Generic

import numpy as np

from arms.errors import RouterError
from arms.reward import FloatArray, check_lam
from router.arm_sets import ArmSet, RankerT, best_arm_set, lams_of_arm_sets
from router.policies.over_vectors import softmax_over
from router.policy import NO_INPUTS, Decisions, Expected, Plan, Policy, PolicyInputs, masked


class OverArmSets(Policy, Generic[RankerT]):
    """Takes the arm set with the highest mean reward at λ; ties to less share, then the earlier.

    Args:
        name: in reports.
        arms: the arms to choose from, in column order.
        arm_sets: among them every arm of ``arms`` alone, without a model.
        probe_depth: how many documents of each arm are read.
        tau: of the softmax that turns qualities into probabilities.
    """

    query_dependent: ClassVar[bool] = False

    def __init__(
        self,
        name: str,
        arms: Sequence[str],
        arm_sets: Sequence[ArmSet[RankerT]],
        probe_depth: int = 20,
        tau: float = 0.1,
    ) -> None:
        self.name, self.arms, self.lams = name, tuple(arms), None
        self.arm_sets, self.probe_depth, self.tau = tuple(arm_sets), probe_depth, tau
        run = {arm for one in self.arm_sets if one.model is not None for arm in one.arms}
        named = dict.fromkeys(arm for one in self.arm_sets for arm in one.arms)
        self.probes = tuple(arm for arm in named if arm in run)

    @property
    def learns_documents(self) -> bool:
        """Whether a model of its does."""
        return any(getattr(one.model, "learns_documents", False) for one in self.arm_sets)

    def _problems(self) -> list[str]:
        """What doesn't fit together; a message for each."""
        problems = []
        for arm_set in self.arm_sets:
            unknown = [arm for arm in arm_set.arms if arm not in self.arms]
            if unknown:
                problems.append(f"an arm set runs {', '.join(unknown)}")
            if not arm_set.arms or (arm_set.model is None and len(arm_set.arms) != 1):
                problems.append(
                    f"an arm set without a model has the arms {', '.join(arm_set.arms)}"
                )
        alone = {one.arms[0] for one in self.arm_sets if one.model is None and one.arms}
        return problems + [f"no arm set is {arm} alone" for arm in self.arms if arm not in alone]

    def _refuse(self, problems: Sequence[str]) -> None:
        if problems:
            raise RouterError(
                f"policy '{self.name}' over {', '.join(self.arms)} doesn't fit together: "
                f"{'; '.join(problems)}"
            )

    @abstractmethod
    def merge(self, number: int, queries: Sequence[str], known: PolicyInputs) -> Decisions:
        """Answer with the ranking that a set with a model makes of what its arms found.

        Where an arm was run that may not answer, nothing is ranked anew: of the others that were
        run the one expected to be best answers.
        """

    def worth_on(self, dataset: str | None) -> Sequence[ArmSet[RankerT]]:
        """Return ``arm_sets`` with the means that count where ``dataset`` is asked."""
        return self.arm_sets

    def arm_set_at(
        self, lam: float, allowed: Collection[str] | None = None, dataset: str | None = None
    ) -> int:
        """Return which of ``arm_sets`` is taken at λ; see :func:`router.arm_sets.best_arm_set`."""
        return best_arm_set(self.worth_on(dataset), check_lam(lam), allowed)

    def probes_at(
        self, lam: float, allowed: Collection[str] | None = None, dataset: str | None = None
    ) -> tuple[str, ...]:
        """Return the arms that are run at λ and ranked anew; none where one arm answers."""
        arm_set = self.arm_sets[self.arm_set_at(lam, allowed, dataset)]
        return () if arm_set.model is None else arm_set.run(allowed)

    def overhead_key(self, lam: float, dataset: str | None = None) -> int:
        """Return the arm set."""
        return self.arm_set_at(lam, None, dataset)

    def overhead_keys(self) -> dict[int, float]:
        """Each arm set that is taken at some λ → a λ inside its range, or at its end."""
        return lams_of_arm_sets(self.arm_sets)

    def other_costs(self) -> Mapping[int, Policy]:
        """Each arm set that is taken at no λ → the policy that takes it at every λ."""
        taken = self.overhead_keys()
        return {
            number: self._always(number)
            for number in range(len(self.arm_sets))
            if number not in taken
        }

    def _always(self, number: int) -> OverArmSets[RankerT]:
        found = copy(self)
        found.arm_sets = tuple(
            replace(one, quality=float(place == number), share=float(place != number))
            for place, one in enumerate(self.arm_sets)
        )
        return found

    def means_of(self, plan: Plan) -> Expected | None:
        """What the set that ranks just these arms anew comes to; None where there is none."""
        for arm_set in self.arm_sets:
            ranks = arm_set.model is not None and plan.combine == arm_set.model.combine
            if ranks and set(arm_set.arms) == set(plan.arms):
                return Expected(arm_set.quality, arm_set.latency_ms, arm_set.queries)
        return None

    def decide(
        self, queries: Sequence[str], lam: float, known: PolicyInputs = NO_INPUTS
    ) -> Decisions:
        """Rank anew what the arms of the set at λ found; see :meth:`merge`.

        Arms that don't compete for a query aren't run: the best set without them is.
        """
        numbers = self._arm_sets_of(lam, known, len(queries))
        parts = {
            number: self._single(lam, len(queries), known)
            if self.arm_sets[number].model is None
            else self.merge(number, queries, known)
            for number in sorted(set(numbers)) or [self.arm_set_at(lam)]
        }
        return next(iter(parts.values())) if len(parts) == 1 else _by_row(parts, numbers)

    def _arm_sets_of(self, lam: float, known: PolicyInputs, n: int) -> list[int]:
        """(n,) the arm set of each query."""
        asked = known.datasets or (None,) * n
        may = (
            [()] * n if known.competes is None else [tuple(one) for one in known.competes.tolist()]
        )
        found: dict[tuple[str | None, tuple[bool, ...]], int] = {}
        for dataset, competing in dict.fromkeys(zip(asked, may, strict=True)):
            allowed = [arm for arm, one in zip(self.arms, competing, strict=False) if one]
            number = self.arm_set_at(lam, allowed if competing else None, dataset)
            found[dataset, competing] = number
        return [found[one] for one in zip(asked, may, strict=True)]

    def _alone(self, lam: float, n: int) -> FloatArray:
        """(n, A) softmax of the mean reward of each arm alone."""
        values = np.full(len(self.arms), -np.inf)
        for one in self.arm_sets:
            if one.model is None:
                values[self.arms.index(one.arms[0])] = one.reward(lam)
        return softmax_over(np.tile(values, (n, 1)), self.tau)

    def _single(self, lam: float, n: int, known: PolicyInputs) -> Decisions:
        rows = masked(self._alone(lam, n), known)
        plans = tuple(Plan((self.arms[column],)) for column in rows.argmax(axis=1)) if n else ()
        return Decisions(plans, rows, reasons=("the best arm at this λ, whatever the query",) * n)

    def _columns(self, arm_set: ArmSet[Any]) -> list[int]:
        return [self.arms.index(arm) for arm in arm_set.arms]

    def _ran(
        self, arm_set: ArmSet[Any], row: int, known: PolicyInputs
    ) -> tuple[tuple[str, ...], bool]:
        """Which arms were run for the query, and whether all of them may answer."""
        competes, probed = known.competes, known.probed or {}
        ran, allowed = [], True
        for arm, column in zip(arm_set.arms, self._columns(arm_set), strict=True):
            may = competes is None or bool(competes[row, column])
            # A dataset that lacks the arm has an empty ranking of it, and it wasn't run.
            if arm in probed and (may or probed[arm][row].doc_ids):
                ran.append(arm)
                allowed = allowed and may
        return tuple(ran), allowed


def _by_row(parts: Mapping[int, Decisions], numbers: Sequence[int]) -> Decisions:
    """Take each query's row from the part of its arm set."""
    rows = list(enumerate(numbers))

    def told(part: Decisions, row: int) -> float:
        return np.nan if part.predicted_quality is None else float(part.predicted_quality[row])

    return Decisions(
        tuple(parts[number].plans[row] for row, number in rows),
        np.stack([parts[number].probabilities[row] for row, number in rows]),
        np.array([told(parts[number], row) for row, number in rows]),
        tuple((parts[number].reasons or {row: None})[row] for row, number in rows),
        tuple((parts[number].rankings or {row: None})[row] for row, number in rows),
    )
