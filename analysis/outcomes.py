"""What a policy's choices came to: quality, latency and reward per query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.evaluation import ArmCodes, BoolArray, Evaluation, FloatArray
from analysis.roles import in_report_order
from router import decisions
from router.policy_names import static_name
from router.realised import (
    answered_quality,
    plan_latency_ms,
    plan_reward,
    reused_at_most,
    sum_over_run,
)

REWARD = "reward"
LATENCY = "latency_ms"
OVERHEAD = "overhead_ms"
REUSED = decisions.REUSED.name


@dataclass(frozen=True, eq=False)
class Picks:
    """What a policy chose for the N queries of an evaluation."""

    answering_arm: ArmCodes
    """(N,) column of the arm whose ranking is returned; −1 where the policy decided nothing.

    Where the policy merges, the arm that would have answered alone.
    """
    runs: BoolArray
    """(N, P) arms that are run, probes included."""
    overhead_ms: FloatArray
    """(N,) milliseconds the policy itself took."""
    reused_encode_ms: FloatArray
    """(N,) encoding that the arms needn't do, as they take the policy's query vector."""
    predicted_quality: FloatArray | None = None
    """(N,) quality it expected of its choice; NaN where not said, None where it never says."""
    answer_quality: Mapping[str, FloatArray] | None = None
    """Measure → (N,) quality of the policy's own ranking, NaN where an arm answers; the primary
    measure is among them. None where an arm always answers."""
    ceiling_quality: Mapping[str, FloatArray] | None = None
    """Measure → (N,) of the same documents in their ideal order."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """One policy at one λ. Arrays are (N,); NaN where the policy can't be evaluated.

    That is: it decided nothing, or chose an arm that the query's dataset lacks.
    """

    policy: str
    lam: float
    evaluation: Evaluation
    answering_arm: ArmCodes
    runs: BoolArray
    overhead_ms: FloatArray
    reused_encode_ms: FloatArray
    """Counted once, in the overhead: at most what the arms run took."""
    latency_ms: FloatArray
    """Arms run plus the policy's own overhead, less the encoding reused."""
    reward: FloatArray
    predicted_quality: FloatArray | None = None
    answer_quality: Mapping[str, FloatArray] | None = None
    ceiling_quality: Mapping[str, FloatArray] | None = None
    """Both as in :class:`Picks`."""

    @property
    def merged(self) -> BoolArray:
        """(N,) True where the policy answered with its own ranking of what its arms found."""
        if self.answer_quality is None:
            return np.zeros(len(self.evaluation), dtype=bool)
        return np.isfinite(self.answer_quality[self.evaluation.primary_measure])

    @property
    def evaluated(self) -> BoolArray:
        """(N,) True where the policy can be evaluated."""
        return np.isfinite(self.reward)

    def values(self, metric: str) -> FloatArray:
        """(N,) of ``reward``, of a duration (``latency_ms``, …) or of one of the measures."""
        if metric == REWARD:
            return self.reward
        if metric == LATENCY:
            return self.latency_ms
        if metric in (OVERHEAD, REUSED):
            return np.where(self.evaluated, getattr(self, metric), np.nan)
        answered = _quality(self.evaluation, metric, self.answering_arm, self.answer_quality)
        return np.where(self.evaluated, answered, np.nan)

    def answered_by(self) -> NDArray[np.object_]:
        """(N,) name of the arm that answered, or ``merged: a, b`` with the arms by name.

        Empty where nothing was decided.
        """
        pipelines = np.array([*self.evaluation.pipelines, ""], dtype=object)
        names = pipelines[self.answering_arm]
        merged = self.merged
        if merged.any():
            sets, set_of = np.unique(self.runs[merged], axis=0, return_inverse=True)
            told = [f"merged: {', '.join(sorted(pipelines[:-1][arms]))}" for arms in sets]
            names[merged] = np.array(told, dtype=object)[set_of.ravel()]
        return names

    def latency_samples_ms(self) -> FloatArray | None:
        """All single timings of the plan, overhead added, NaNs dropped; None if not kept.

        Encoding that is reused is taken off as its median: its single timings aren't kept.
        """
        samples = self.evaluation.samples_ms
        if samples is None:
            return None
        if (self.runs.sum(axis=1) <= 1).all():
            answering = np.maximum(self.answering_arm, 0)[:, None, None]
            plan = np.take_along_axis(samples, answering, axis=1)[:, 0]
        else:  # probes count too
            plan = np.where(self.runs[:, :, None], samples, 0.0).sum(axis=1)
        arms_ms = np.maximum(plan - self.reused_encode_ms[:, None], 0.0)  # NaN stays NaN
        timed = (arms_ms + self.overhead_ms[:, None])[self.evaluated]
        return timed[np.isfinite(timed)]


def _quality(
    evaluation: Evaluation,
    measure: str,
    answering_arm: ArmCodes,
    answer_quality: Mapping[str, FloatArray] | None,
) -> FloatArray:
    """(N,) the answering arm's quality, or that of the policy's own ranking where it merges."""
    of_arm = _answers(evaluation.quality[measure], answering_arm)
    if answer_quality is None:
        return of_arm
    merged = np.isfinite(answer_quality[evaluation.primary_measure])
    unknown = np.full(len(evaluation), np.nan)
    return answered_quality(of_arm, answer_quality.get(measure, unknown), merged)


def _answers(values: FloatArray, answering_arm: ArmCodes) -> FloatArray:
    """(N,) the value of the arm that answered; NaN where none did."""
    places = np.arange(len(values)) * values.shape[1] + np.maximum(answering_arm, 0)
    chosen = np.take(values, places)
    return np.where(answering_arm >= 0, chosen, np.nan)


def score(evaluation: Evaluation, policy: str, lam: float, picks: Picks) -> Outcome:
    """Evaluate ``picks`` by :mod:`router.realised`: the overhead is charged in full.

    A query vector that the policy and an arm share is counted once, in the overhead.
    """
    arms_ms = sum_over_run(picks.runs, evaluation.latency_ms)  # NaN where an arm is lacking
    quality = _quality(
        evaluation, evaluation.primary_measure, picks.answering_arm, picks.answer_quality
    )
    plan_ms = plan_latency_ms(arms_ms, picks.overhead_ms, picks.reused_encode_ms)
    latency = np.where(np.isnan(quality), np.nan, plan_ms)
    return Outcome(
        policy=policy,
        lam=lam,
        evaluation=evaluation,
        answering_arm=picks.answering_arm,
        runs=picks.runs,
        overhead_ms=picks.overhead_ms,
        reused_encode_ms=reused_at_most(picks.reused_encode_ms, arms_ms),
        latency_ms=latency,
        reward=plan_reward(quality, latency, evaluation.total_latency_ms, lam),
        predicted_quality=picks.predicted_quality,
        answer_quality=picks.answer_quality,
        ceiling_quality=picks.ceiling_quality,
    )


def decided_alike(one: Outcome, other: Outcome) -> bool:
    """Whether two outcomes run the same arms for every query and give the same answers."""
    measure = one.evaluation.primary_measure
    return (
        np.array_equal(one.answering_arm, other.answering_arm)
        and np.array_equal(one.runs, other.runs)
        and np.array_equal(one.merged, other.merged)
        and np.array_equal(one.values(measure), other.values(measure), equal_nan=True)
    )


def picks_of_single_arms(evaluation: Evaluation, answering_arm: ArmCodes) -> Picks:
    """Picks of one arm per query (−1: none) by a policy that costs nothing."""
    columns = np.arange(len(evaluation.pipelines))
    return Picks(
        answering_arm=answering_arm,
        runs=answering_arm[:, None] == columns[None, :],
        overhead_ms=np.zeros(len(evaluation)),
        reused_encode_ms=np.zeros(len(evaluation)),
    )


def static_outcomes(evaluation: Evaluation, lams: tuple[float, ...]) -> list[Outcome]:
    """Every arm of P as a policy of its own, at every λ; read from the labels alone."""
    outcomes = []
    for column, arm in enumerate(evaluation.pipelines):
        picks = picks_of_single_arms(evaluation, np.full(len(evaluation), column, dtype=np.int16))
        outcomes += [score(evaluation, static_name(arm), lam, picks) for lam in lams]
    return outcomes


@dataclass(frozen=True, eq=False)
class Scores:
    """Every policy at every λ on one evaluation."""

    evaluation: Evaluation
    lams: tuple[float, ...]
    outcomes: Mapping[tuple[str, float], Outcome]
    notes: tuple[str, ...] = ()
    """What was left out, and why."""

    @property
    def policies(self) -> tuple[str, ...]:
        """Policies in the order of reports."""
        names = {policy for policy, _ in self.outcomes}
        return in_report_order(names, self.evaluation.pipelines)

    def get(self, policy: str, lam: float) -> Outcome | None:
        """Return the outcome of ``policy`` at ``lam``; None where it has no decisions there."""
        return self.outcomes.get((policy, lam))

    def at(self, lam: float) -> list[Outcome]:
        """Return the outcomes at ``lam``, in the order of reports."""
        found = (self.get(policy, lam) for policy in self.policies)
        return [outcome for outcome in found if outcome is not None]
