"""Decisions joined to the labels' rows: columns in, arrays out, no loop over queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.evaluation import Evaluation, IntArray
from analysis.outcomes import FloatArray, Outcome, Picks, score
from analysis.plans import parse_plan
from analysis.roles import role_of
from arms.errors import RouterError
from oracle.labels import Labels
from router.policy import Plan

TEST = "test"
FOLDS = "cv"
_SEPARATOR = "\x1f"
_BATCH_ROWS = 1 << 20


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


def join_decisions(table: pa.Table, labels: Labels) -> Decided:
    """Group the decisions on test queries and on folds, as rows of ``labels``.

    Static arms and oracles follow from the labels, so decisions that repeat them are skipped. A
    policy with fused plans is left out by name: labels hold no quality of a fused ranking.

    Raises:
        RouterError: decisions that name queries or arms the labels don't have, decide a query
            twice, or call a query ``test`` that the labels trained on.
    """
    table = _evaluated_rows(table)
    policies = table["policy"].combine_chunks().dictionary_encode()
    plan_texts = table["plan"].combine_chunks().dictionary_encode()
    plans = tuple(parse_plan(text, labels.pipelines) for text in plan_texts.dictionary.to_pylist())
    is_fold = pc.starts_with(table["split"], FOLDS).to_numpy()
    lams, lam_codes = _codes_of_lams(table["lam"])
    policy_codes = policies.indices.to_numpy(zero_copy_only=False)
    rows = _label_rows(table, labels)
    _check_split(labels, rows[~is_fold])
    key = (policy_codes.astype(np.int64) * len(lams) + lam_codes) * 2 + is_fold
    order = np.argsort(key, kind="stable")
    borders = np.flatnonzero(np.diff(key[order])) + 1
    overhead = pc.fill_null(table["overhead_ms"], 0.0).to_numpy()
    codes = plan_texts.indices.to_numpy(zero_copy_only=False).astype(np.intp)
    groups = [
        DecidedGroup(
            evaluation=FOLDS if is_fold[members[0]] else TEST,
            policy=policies.dictionary[int(policy_codes[members[0]])].as_py(),
            lam=lams[int(lam_codes[members[0]])],
            label_rows=rows[members],
            plan_codes=codes[members],
            overhead_ms=overhead[members],
        )
        for members in np.split(order, borders)
        if len(members)
    ]
    return _without_fusion(plans, [_checked(group, labels) for group in groups])


def _evaluated_rows(table: pa.Table) -> pa.Table:
    """Rows on test queries or folds, of policies that don't follow from the labels alone."""
    kept = pc.or_(pc.equal(table["split"], TEST), pc.starts_with(table["split"], FOLDS))
    known = [
        name
        for name in pc.unique(table["policy"]).to_pylist()
        if role_of(name) in ("static", "oracle")
    ]
    derived = pc.is_in(table["policy"], value_set=pa.array(known, pa.string()))
    return table.filter(pc.and_(kept, pc.invert(derived)))


def _codes_of_lams(column: pa.ChunkedArray) -> tuple[list[float | None], IntArray]:
    """The distinct λ (rounded to 9 digits; null last as None) and each row's index into them."""
    lams = np.round(pc.fill_null(column, np.nan).to_numpy(), 9)
    distinct, codes = np.unique(lams, return_inverse=True)
    named = [None if np.isnan(lam) else float(lam) for lam in distinct]
    outside = [lam for lam in named if lam is not None and not 0.0 <= lam <= 1.0]
    if outside:
        raise RouterError(
            f"decisions have lam {outside[0]}; lam must lie in [0, 1]: rerun l2r train"
        )
    return named, codes.astype(np.intp)


def _label_rows(table: pa.Table, labels: Labels) -> IntArray:
    """(decisions,) row of the labels of each decision's (dataset, query id)."""
    known = pa.array(labels.datasets + _SEPARATOR + labels.query_ids, pa.string())
    found = []
    for batch in table.select(["dataset", "query_id"]).to_batches(max_chunksize=_BATCH_ROWS):
        keys = pc.binary_join_element_wise(batch["dataset"], batch["query_id"], _SEPARATOR)
        found.append(pc.fill_null(pc.index_in(keys, value_set=known), -1).to_numpy())
    rows = np.concatenate(found) if found else np.zeros(0)
    if (rows < 0).any():
        first = table.slice(int(np.argmax(rows < 0)), 1).to_pylist()[0]
        raise RouterError(
            f"{int((rows < 0).sum())} decisions are about queries that the labels don't have, for "
            f"example '{first['query_id']}' of {first['dataset']}; they were made on other labels: "
            "rerun l2r train"
        )
    return rows.astype(np.intp)


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
    bad = ~(np.isfinite(group.overhead_ms) & (group.overhead_ms >= 0.0))
    if bad.any():
        raise RouterError(
            f"{group.policy} has {int(bad.sum())} decisions whose overhead_ms is negative or not "
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
    picks = Picks(
        answering_arm=np.full(len(evaluation), -1, dtype=np.intp),
        runs=np.zeros((len(evaluation), len(evaluation.pipelines)), dtype=bool),
        overhead_ms=np.zeros(len(evaluation)),
    )
    picks.answering_arm[rows] = answers[codes]
    picks.runs[rows] = runs_of_plan[codes]
    picks.overhead_ms[rows] = group.overhead_ms[inside]
    return picks
