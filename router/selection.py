"""A query through the router, one step after another: inputs, probes, decision, choice."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from arms.records import Ranking
from arms.reward import FloatArray, normalised_latency, reward
from router.arm_pool import ArmPool
from router.artifact import RouterRecord
from router.calibration import CalibratedPoint
from router.choice import Choice, known_quality
from router.execution import ProbeResults, probe
from router.policy import Decisions, Expected, Plan, Policy, PolicyInputs


@dataclass(frozen=True)
class Request:
    """Queries that one policy decides together."""

    queries: list[str]
    """Checked."""
    chooser: Policy
    lam: float
    """As asked for, or what a wish came to."""
    promised: CalibratedPoint | None
    """Of a wish."""
    allowed: tuple[str, ...]
    """Arms that may answer, in the router's order."""
    dataset: str | None
    depth: int
    """How deep arms will be run after the choice; 0: they won't be."""
    begin_ns: int
    """When the caller asked, as ``time.perf_counter_ns`` tells it."""

    @property
    def lam_used(self) -> float:
        """Whose model answers: the trained λ nearest to ``lam``."""
        return self.chooser.nearest_lam(self.lam)

    @property
    def is_settled(self) -> bool:
        """Whether one arm alone may answer, whatever probes would find."""
        return bool(self.chooser.probes) and len(self.allowed) == 1

    @property
    def probes(self) -> tuple[str, ...]:
        """Arms to run before deciding."""
        if self.is_settled or not self.chooser.asks_at(self.lam_used, self.dataset):
            return ()
        return self.chooser.probes_at(self.lam_used, self.allowed, self.dataset)


@dataclass(frozen=True)
class Selected:
    """What came of a request."""

    choices: list[Choice]
    probed: ProbeResults
    """What is at hand for running the plans."""
    rankings: Sequence[Ranking | None]
    """The policy's own, where plans merge."""


class Expectations:
    """What held-out labels say of arms and policies, as the artifact records it."""

    def __init__(self, record: RouterRecord) -> None:
        self._record = record
        self._at = lru_cache(maxsize=256)(self._nearest)

    def of_arm(self, arm: str, lam: float, policy: str) -> Expected | None:
        """That of the recorded λ nearest to ``lam`` that has the arm, or None."""
        return self._at(float(lam), policy).get(arm)

    def of_plan(self, plan: Plan, lam: float, chooser: Policy) -> Expected | None:
        """Of the arm that answers; of a plan that its policy ranks as a whole, where it knows."""
        means = chooser.means_of(plan)
        if means is not None:
            return means
        if plan.combine == "merge":
            return None
        return self.of_arm(plan.answering_arm, lam, chooser.name)

    def preference(self, lam: float, policy: str) -> FloatArray:
        """(A,) expected reward per arm at ``lam``; 0 throughout where any is unknown.

        Where nothing is recorded of the policy, what its router's own default policy met counts.
        """
        told = policy if policy in self._record.expected else self._record.defaults.select
        known = [self.of_arm(arm, lam, told) for arm in self._record.arms]
        quality = np.array([entry.quality if entry else None for entry in known], dtype=float)
        latency = np.array([entry.latency_ms if entry else None for entry in known], dtype=float)
        if not (np.isfinite(quality) & np.isfinite(latency)).all():
            return np.zeros(len(known))
        return reward(quality, normalised_latency(latency), lam)

    def _nearest(self, lam: float, policy: str) -> dict[str, Expected]:
        """Arm → what is recorded of it at the λ nearest to ``lam`` that has it."""
        nearest: dict[str, Expected] = {}
        recorded = self._record.expected.get(policy, {})
        far_first = sorted(
            recorded, key=lambda trained: (round(abs(trained - lam), 12), trained), reverse=True
        )
        for trained in far_first:
            nearest.update(recorded[trained])
        return nearest


def select(
    request: Request,
    arms: Sequence[str],
    expectations: Expectations,
    dataset_to_probe: Callable[[Policy, str | None], tuple[ArmPool, str]],
) -> Selected:
    """Choose a plan for each query of ``request``.

    Args:
        request: what is asked.
        arms: the router's, in column order.
        expectations: of the router's record.
        dataset_to_probe: returns the open arms and the dataset in which probes run, or raises.
    """
    known, probed = _with_vectors(request, _inputs(request, arms, expectations))
    paused_ns = 0
    if request.probes:
        known, probed, paused_ns = _with_probes(request, known, probed, dataset_to_probe)
    if request.is_settled:
        decided = _forced_choice(request.allowed[0], arms, len(request.queries))
    else:
        decided = request.chooser.decide(request.queries, request.lam_used, known)
    # Probing, opening included, isn't deciding.
    overhead_ms = (time.perf_counter_ns() - request.begin_ns - paused_ns) / 1e6
    choices = _choices(request, arms, decided, expectations, overhead_ms)
    return Selected(choices, probed, decided.rankings or (None,) * len(choices))


def _inputs(request: Request, arms: Sequence[str], expectations: Expectations) -> PolicyInputs:
    """Say which arms may answer, and where."""
    n, chooser = len(request.queries), request.chooser
    datasets = None if request.dataset is None else [request.dataset] * n
    if len(request.allowed) == len(arms):
        return PolicyInputs(datasets=datasets)
    competes = np.array([arm in request.allowed for arm in arms], dtype=bool)
    preference = expectations.preference(request.lam_used, chooser.name)
    return PolicyInputs(
        competes=np.tile(competes, (n, 1)), preference=preference, datasets=datasets
    )


def _with_vectors(request: Request, known: PolicyInputs) -> tuple[PolicyInputs, ProbeResults]:
    """Embed the queries where arms will run, which may take the same vectors."""
    chooser, lam = request.chooser, request.lam_used
    arms_run = bool(request.probes or request.depth) and not request.is_settled
    if not arms_run or not chooser.asks_at(lam, request.dataset):
        return known, ProbeResults()
    known = chooser.with_vectors(request.queries, lam, known)
    if chooser.queries is None or known.embeddings is None:
        return known, ProbeResults()
    vectors = chooser.queries.to_share(request.queries, known.embeddings, chooser.device)
    return known, ProbeResults(vectors=vectors)


def _with_probes(
    request: Request,
    known: PolicyInputs,
    at_hand: ProbeResults,
    dataset_to_probe: Callable[[Policy, str | None], tuple[ArmPool, str]],
) -> tuple[PolicyInputs, ProbeResults, int]:
    """Run the probes; return inputs, what was found, and the nanoseconds that it took."""
    chooser, begin_ns = request.chooser, time.perf_counter_ns()
    opened, dataset = dataset_to_probe(chooser, request.dataset)
    deep = max(request.depth, chooser.probe_depth)
    probed = probe(request.probes, request.queries, deep, opened, dataset, at_hand.vectors)
    found = probed.cut(dataset, chooser.probe_depth)
    known = replace(known, probed=found, datasets=[dataset] * len(request.queries))
    return known, probed, time.perf_counter_ns() - begin_ns


def _choices(
    request: Request,
    arms: Sequence[str],
    decided: Decisions,
    expectations: Expectations,
    overhead_ms: float,
) -> list[Choice]:
    chooser, lam = request.chooser, request.lam_used
    nothing = (None,) * len(decided.plans)
    predicted = nothing if decided.predicted_quality is None else decided.predicted_quality
    columns = [list(arms).index(arm) for arm in request.allowed]
    return [
        Choice(
            arm=plan.answering_arm,
            probabilities=dict(zip(request.allowed, row, strict=True)),
            expected=expectations.of_plan(plan, lam, chooser),
            expects_plan=chooser.means_of(plan) is not None,
            lam=request.lam,
            lam_used=lam,
            policy=chooser.name,
            policy_kind=chooser.display_name,
            overhead_ms=overhead_ms,
            plan=plan,
            predicted_quality=known_quality(quality),
            reason=reason,
            promised=request.promised,
        )
        for row, plan, quality, reason in zip(
            decided.probabilities[:, columns].tolist(),
            decided.plans,
            predicted,
            decided.reasons or nothing,
            strict=True,
        )
    ]


def _forced_choice(arm: str, arms: Sequence[str], n: int) -> Decisions:
    """Return what there is to decide for n queries where ``arm`` alone of ``arms`` may answer."""
    row = [float(one == arm) for one in arms]
    why = "no other arm may answer"
    return Decisions((Plan((arm,)),) * n, np.tile(row, (n, 1)), reasons=(why,) * n)
