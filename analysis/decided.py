"""Decisions joined to the labels' rows: columns in, arrays out, no loop over queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from analysis.decision_codes import FOLDS, TEST, code_decisions
from analysis.evaluation import Evaluation, IntArray
from analysis.outcomes import FloatArray, Outcome, Picks, score
from analysis.plans import parse_plan
from arms.errors import RouterError
from oracle.labels import Labels
from router.policy import Plan

__all__ = ["FOLDS", "TEST", "Decided", "DecidedGroup", "join_decisions"]


@dataclass(frozen=True, eq=False)
class DecidedGroup:
    """The decisions of one policy at one λ in one evaluation; arrays run parallel."""

    evaluation: str
    policy: str
    lam: float | None
    """None: the policy's decisions hold for every λ."""
    label_rows: IntArray
    plan_codes: IntArray
    overhead_ms: FloatArray
    reused_encode_ms: FloatArray
    """Encoding that the arms of the plan needn't do, as they take the policy's query vector."""
    predicted_quality: FloatArray | None = None
    """Quality that the policy expected of its choice, query by query; None where not recorded."""


@dataclass(frozen=True, eq=False)
class Decided:
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

    def outcomes(self, evaluation: Evaluation, lams: Sequence[float]) -> list[Outcome]:
        """Score the groups of ``evaluation``; a group without λ is scored at each of ``lams``."""
        scored = []
        for group in self.groups:
            if group.evaluation == evaluation.name:
                picks = _picks(group, self.plans, evaluation)
                wanted = lams if group.lam is None else (group.lam,)
                scored += [score(evaluation, group.policy, lam, picks) for lam in wanted]
        return scored


def join_decisions(decisions: pa.Table | Iterable[pa.RecordBatch], labels: Labels) -> Decided:
    """Group the decisions on test queries and on folds, as rows of ``labels``.

    Static arms and oracles follow from the labels, so decisions that repeat them are skipped. A
    policy with fused plans is left out by name: labels hold no quality of a fused ranking. Batches
    are turned to numbers one by one, so that only codes of all decisions are held at once.

    Raises:
        RouterError: decisions that name queries or arms the labels don't have, decide a query
            twice, or call a query ``test`` that the labels trained on.
    """
    batches = decisions.to_batches() if isinstance(decisions, pa.Table) else decisions
    coded = code_decisions(batches, labels)
    plans = tuple(parse_plan(text, labels.pipelines) for text in coded.plans)
    lams, lam_codes = _codes_of_lams(coded.lams)
    _check_split(labels, coded.label_rows[~coded.is_fold])
    key = (coded.policy_codes.astype(np.int64) * len(lams) + lam_codes) * 2 + coded.is_fold
    order = np.argsort(key, kind="stable")
    borders = np.flatnonzero(np.diff(key[order])) + 1
    predicted = coded.predicted_quality
    groups = [
        DecidedGroup(
            evaluation=FOLDS if coded.is_fold[members[0]] else TEST,
            policy=coded.policies[int(coded.policy_codes[members[0]])],
            lam=lams[int(lam_codes[members[0]])],
            label_rows=coded.label_rows[members],
            plan_codes=coded.plan_codes[members],
            overhead_ms=coded.overhead_ms[members],
            reused_encode_ms=coded.reused_encode_ms[members],
            predicted_quality=None if predicted is None else predicted[members],
        )
        for members in np.split(order, borders)
        if len(members)
    ]
    return _without_fusion(plans, [_checked(group, labels) for group in groups])


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


def _without_fusion(plans: tuple[Plan, ...], groups: list[DecidedGroup]) -> Decided:
    fuses = np.array([plan.combine == "fuse" for plan in plans], dtype=bool)
    fused = sorted({group.policy for group in groups if fuses[group.plan_codes].any()})
    notes = tuple(
        f"{policy} is left out: it fuses arms, and labels hold no quality of fused rankings. "
        "Run the fusion as an arm of its own to compare it."
        for policy in fused
    )
    return Decided(plans, tuple(group for group in groups if group.policy not in fused), notes)


def _picks(group: DecidedGroup, plans: tuple[Plan, ...], evaluation: Evaluation) -> Picks:
    """Lay a group's decisions out over the queries of ``evaluation``."""
    place = np.searchsorted(evaluation.label_rows, group.label_rows)
    place = np.minimum(place, max(len(evaluation) - 1, 0))
    inside = evaluation.label_rows[place] == group.label_rows if len(evaluation) else place < 0
    rows, codes = place[inside], group.plan_codes[inside]
    answers = np.array([evaluation.pipelines.index(plan.arms[-1]) for plan in plans], dtype=np.intp)
    runs_of_plan = np.array(
        [[arm in plan.arms for arm in evaluation.pipelines] for plan in plans], dtype=bool
    )
    predicted = None
    if group.predicted_quality is not None:
        predicted = np.full(len(evaluation), np.nan)
        predicted[rows] = group.predicted_quality[inside]
    picks = Picks(
        answering_arm=np.full(len(evaluation), -1, dtype=np.int16),
        runs=np.zeros((len(evaluation), len(evaluation.pipelines)), dtype=bool),
        overhead_ms=np.zeros(len(evaluation)),
        reused_encode_ms=np.zeros(len(evaluation)),
        predicted_quality=predicted,
    )
    picks.answering_arm[rows] = answers[codes]
    picks.runs[rows] = runs_of_plan[codes]
    picks.overhead_ms[rows] = group.overhead_ms[inside]
    picks.reused_encode_ms[rows] = group.reused_encode_ms[inside]
    return picks
