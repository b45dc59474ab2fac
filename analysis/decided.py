"""Decisions joined to the labels' rows: columns in, arrays out, no loop over queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from analysis.decision_codes import (
    EVALUATIONS,
    TEST,
    CodedDecisions,
    code_decisions,
)
from analysis.evaluation import BoolArray, Evaluation, IntArray
from analysis.outcomes import FloatArray, Outcome, Picks, score
from analysis.plans import parse_plan
from arms.errors import RouterError
from oracle.labels import Labels
from router.decisions import ANSWER, DOCUMENT_FOLDS, FOLDS
from router.policy import Plan
from router.realised import answering_columns, arms_run

__all__ = ["DOCUMENT_FOLDS", "FOLDS", "TEST", "DecidedGroup", "JoinedDecisions", "join_decisions"]

_ROUNDING = 1e-9
"""How far above 1 a measure may lie by the order in which its gains were added."""


@dataclass(frozen=True, eq=False)
class DecidedGroup:
    """The decisions of one policy at one λ in one evaluation; arrays run parallel."""

    evaluation: str
    policy: str
    lam: float | None
    """None: the policy's decisions hold for every λ."""
    label_rows: IntArray
    sides: NDArray[np.int32]
    """Number of the fold that each query is held out with; 0 on the test split."""
    plan_codes: IntArray
    overhead_ms: FloatArray
    reused_encode_ms: FloatArray
    """Encoding that the arms of the plan needn't do, as they take the policy's query vector."""
    predicted_quality: FloatArray | None = None
    """Quality that the policy expected of its choice, query by query; None where not recorded."""
    answer_quality: Mapping[str, FloatArray] | None = None
    """Measure → quality of the policy's own ranking, NaN where an arm answers; None where one
    always does."""
    ceiling_quality: Mapping[str, FloatArray] | None = None
    """The same of its documents in the ideal order; NaN where that isn't told."""


@dataclass(frozen=True, eq=False)
class JoinedDecisions:
    """Every decision that is evaluated, grouped."""

    plans: tuple[Plan, ...]
    groups: tuple[DecidedGroup, ...]
    notes: tuple[str, ...] = ()

    @property
    def lams(self) -> tuple[float, ...]:
        """The λ that occur, ascending."""
        return tuple(sorted({group.lam for group in self.groups if group.lam is not None}))

    def label_rows(self, evaluation: str) -> IntArray:
        """Rows of the labels on which anything was decided in ``evaluation``, ascending."""
        rows = [group.label_rows for group in self.groups if group.evaluation == evaluation]
        return np.unique(np.concatenate(rows)) if rows else np.zeros(0, dtype=np.intp)

    def sides(self, evaluation: str, count: int) -> IntArray:
        """(count,) the fold of each row of the labels in ``evaluation``; −1: not decided there."""
        found = np.full(count, -1, dtype=np.intp)
        for group in self.groups:
            if group.evaluation == evaluation:
                found[group.label_rows] = group.sides
        return found

    def outcomes(self, evaluation: Evaluation, lams: Sequence[float]) -> list[Outcome]:
        """Score the groups of ``evaluation``; a group without λ is scored at each of ``lams``."""
        scored = []
        for group in self.groups:
            if group.evaluation == evaluation.name:
                picks = _picks(group, self.plans, evaluation)
                wanted = lams if group.lam is None else (group.lam,)
                scored += [score(evaluation, group.policy, lam, picks) for lam in wanted]
        return scored


def join_decisions(
    decisions: pa.Table | Iterable[pa.RecordBatch], labels: Labels
) -> JoinedDecisions:
    """Group the decisions on test queries and on folds, as rows of ``labels``.

    Static arms and oracles follow from the labels, so decisions that repeat them are skipped. A
    policy with fused plans whose decisions don't tell the quality of what came of them is left out
    by name: labels hold none. Batches are turned to numbers one by one, so that only
    codes of all decisions are held at once.

    Raises:
        RouterError: decisions that name queries or arms the labels don't have, decide a query
            twice, call a query ``test`` that the labels trained on, or merge arms without telling
            the quality of what came of it.
    """
    batches = decisions.to_batches() if isinstance(decisions, pa.Table) else decisions
    coded = code_decisions(batches, labels)
    plans = tuple(parse_plan(text, labels.pipelines) for text in coded.plans)
    lams, lam_codes = _codes_of_lams(coded.lams)
    _check_split(labels, coded.label_rows[coded.evaluation_codes == 0])
    key = coded.policy_codes.astype(np.int64) * len(lams) + lam_codes
    key = key * len(EVALUATIONS) + coded.evaluation_codes
    order = np.argsort(key, kind="stable")
    borders = np.flatnonzero(np.diff(key[order])) + 1
    predicted = coded.predicted_quality
    groups = [
        DecidedGroup(
            evaluation=EVALUATIONS[int(coded.evaluation_codes[members[0]])],
            policy=coded.policies[int(coded.policy_codes[members[0]])],
            lam=lams[int(lam_codes[members[0]])],
            label_rows=coded.label_rows[members],
            sides=coded.sides[members],
            plan_codes=coded.plan_codes[members],
            overhead_ms=coded.overhead_ms[members],
            reused_encode_ms=coded.reused_encode_ms[members],
            predicted_quality=None if predicted is None else predicted[members],
            answer_quality=_answers_of(coded, members, coded.answer_quality),
            ceiling_quality=_answers_of(coded, members, coded.ceiling_quality),
        )
        for members in np.split(order, borders)
        if len(members)
    ]
    failed = ~labels.comparable(labels.pipelines)
    checked = [_with_answers(_checked(group, labels), plans, labels, failed) for group in groups]
    return _without_fusion(plans, checked, labels.primary_measure)


def _answers_of(
    coded: CodedDecisions, members: IntArray, quality: Mapping[str, FloatArray]
) -> dict[str, FloatArray] | None:
    """Lay what is told of answers that policies made themselves out over ``members``, ascending."""
    if not len(coded.answered_rows):
        return None
    place = np.searchsorted(coded.answered_rows, members)
    place = np.minimum(place, len(coded.answered_rows) - 1)
    own = coded.answered_rows[place] == members
    if not own.any():
        return None
    return {measure: np.where(own, values[place], np.nan) for measure, values in quality.items()}


def _codes_of_lams(rows: FloatArray) -> tuple[list[float | None], IntArray]:
    """The distinct λ (rounded to 9 digits; null last as None) and each row's index into them."""
    distinct, codes = np.unique(np.round(rows, 9), return_inverse=True)
    named = [None if np.isnan(lam) else float(lam) for lam in distinct]
    outside = [lam for lam in named if lam is not None and not 0.0 <= lam <= 1.0]
    if outside:
        raise RouterError(
            f"decisions have lam {outside[0]}; lam must lie in [0, 1]: rerun l2r train"
        )
    return named, codes.astype(np.intp)


def _check_split(labels: Labels, test_rows: IntArray) -> None:
    trained_on = test_rows[labels.splits[test_rows] != TEST]
    if len(trained_on):
        row = trained_on[0]
        raise RouterError(
            f"decisions call the query '{labels.query_ids[row]}' of {labels.datasets[row]} test, "
            f"its labels say {labels.splits[row]}; the split changed after training: "
            "rerun l2r train"
        )


def _checked(group: DecidedGroup, labels: Labels) -> DecidedGroup:
    order = np.sort(group.label_rows)
    twice = order[1:][order[1:] == order[:-1]]
    if len(twice):
        raise RouterError(
            f"{group.policy} decided the query '{labels.query_ids[twice[0]]}' of "
            f"{labels.datasets[twice[0]]} twice at lam {group.lam}; one decision per query, policy "
            "and lam is expected: rerun l2r train"
        )
    for name in ("overhead_ms", "reused_encode_ms"):
        duration = getattr(group, name)
        bad = ~(np.isfinite(duration) & (duration >= 0.0))
        if bad.any():
            raise RouterError(
                f"{group.policy} has {int(bad.sum())} decisions whose {name} is negative or not "
                "finite; a duration of at least 0 is expected: rerun l2r train"
            )
    return group


def _with_answers(
    group: DecidedGroup, plans: tuple[Plan, ...], labels: Labels, failed: BoolArray
) -> DecidedGroup:
    """Check the answers that the policy made itself.

    On ``failed`` queries (Q,) one may be missing: it counts as 0, where failures are counted.
    """
    primary = labels.primary_measure
    merges = np.array([plan.combine == "merge" for plan in plans], dtype=bool)[group.plan_codes]
    if group.answer_quality is None and not merges.any():
        return group
    unknown = np.full(len(group.label_rows), np.nan)
    answers = dict(group.answer_quality or {primary: unknown})
    for measure, values in answers.items():
        outside = ~np.isnan(values) & ~((values >= 0.0) & (values <= 1.0 + _ROUNDING))
        if outside.any():
            raise RouterError(
                f"{group.policy} has {int(outside.sum())} answers of its own whose {measure} lies "
                f"outside [0, 1], for example {values[outside][0]:g}: rerun l2r train"
            )
    untold = merges & np.isnan(answers[primary])
    wrong = untold & ~failed[group.label_rows]
    if wrong.any():
        raise RouterError(
            f"{group.policy} merges arms for {int(wrong.sum())} queries without telling the "
            f"{primary} of what came of it; the column '{ANSWER}{primary}' is expected to: the "
            "decisions were made by another version or on other labels: rerun l2r train"
        )
    counted = {name: np.where(untold, 0.0, values) for name, values in answers.items()}
    return replace(group, answer_quality=counted if untold.any() else answers)


def _without_fusion(
    plans: tuple[Plan, ...], groups: list[DecidedGroup], primary: str
) -> JoinedDecisions:
    fuses = np.array([plan.combine == "fuse" for plan in plans], dtype=bool)

    def untold(group: DecidedGroup) -> BoolArray:
        if group.answer_quality is None:
            return fuses[group.plan_codes]
        return fuses[group.plan_codes] & np.isnan(group.answer_quality[primary])

    fused = sorted({group.policy for group in groups if untold(group).any()})
    notes = tuple(
        f"{policy} is left out: it fuses arms, and labels hold no quality of fused rankings. "
        "Run the fusion as an arm of its own to compare it."
        for policy in fused
    )
    return JoinedDecisions(
        plans, tuple(group for group in groups if group.policy not in fused), notes
    )


def _picks(group: DecidedGroup, plans: tuple[Plan, ...], evaluation: Evaluation) -> Picks:
    """Lay a group's decisions out over the queries of ``evaluation``."""
    place = np.searchsorted(evaluation.label_rows, group.label_rows)
    place = np.minimum(place, max(len(evaluation) - 1, 0))
    inside = evaluation.label_rows[place] == group.label_rows if len(evaluation) else place < 0
    rows, codes = place[inside], group.plan_codes[inside]
    answers = answering_columns(plans, evaluation.pipelines)
    runs_of_plan = arms_run(plans, evaluation.pipelines)
    predicted = None
    if group.predicted_quality is not None:
        predicted = np.full(len(evaluation), np.nan)
        predicted[rows] = group.predicted_quality[inside]

    def laid_out(told: Mapping[str, FloatArray] | None) -> dict[str, FloatArray] | None:
        if told is None:
            return None
        own = {measure: np.full(len(evaluation), np.nan) for measure in told}
        for measure, values in told.items():
            own[measure][rows] = values[inside]
        return own

    picks = Picks(
        answering_arm=np.full(len(evaluation), -1, dtype=np.int16),
        runs=np.zeros((len(evaluation), len(evaluation.pipelines)), dtype=bool),
        overhead_ms=np.zeros(len(evaluation)),
        reused_encode_ms=np.zeros(len(evaluation)),
        predicted_quality=predicted,
        answer_quality=laid_out(group.answer_quality),
        ceiling_quality=laid_out(group.ceiling_quality),
    )
    picks.answering_arm[rows] = answers[codes]
    picks.runs[rows] = runs_of_plan[codes] & np.isfinite(evaluation.latency_ms[rows])
    picks.overhead_ms[rows] = group.overhead_ms[inside]
    picks.reused_encode_ms[rows] = group.reused_encode_ms[inside]
    return picks
