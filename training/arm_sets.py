"""Sets of arms to be run together: which there are, and what each is worth on held-out queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from arms.errors import SettingsError
from arms.reward import FloatArray, latency_share
from router.arm_sets import ArmSet, RankerT
from router.policies.over_arm_sets import OverArmSets
from router.policy import Combine, PolicyInputs
from training.fitting import FitContext, Rows
from training.merged_quality import own_quality, primary
from training.plan_outcomes import plan_outcomes
from training.relevance_fit import cutoff, grades_known
from training.table import RoutingTable


def nested_sets(table: RoutingTable, arm_sets: int) -> tuple[tuple[str, ...], ...]:
    """Return at most ``arm_sets`` sets of arms: the cheapest, those and the next, …, all.

    Arms are ordered by mean latency, and cut where it rises by the greatest factors, ties to the
    earlier; what merely fuses others, and what can't be run, is left out.
    """
    latency_ms = table.mean_latency_ms()
    order = [
        column
        for column in np.argsort(latency_ms, kind="stable").tolist()
        if table.may_be_probe(table.arms[column]) and table.competes[:, column].any()
    ]
    taken = np.maximum(latency_ms[order], 1e-3)
    rises = np.argsort(-(taken[1:] / taken[:-1]), kind="stable")[: arm_sets - 1] + 1
    ends = [*sorted(rises.tolist()), len(order)] if order else []
    return tuple(tuple(table.arms[column] for column in order[:end]) for end in ends)


def check_sets(block: str, sets: Sequence[Sequence[str]], arms: Sequence[str]) -> None:
    """Raise ``SettingsError`` where ``training.<block>.sets`` names an arm outside ``arms``."""
    unknown = sorted({arm for one in sets for arm in one} - set(arms))
    if unknown:
        raise SettingsError(
            f"training.{block}.sets names {', '.join(unknown)}; a router may run the arms it "
            f"chooses from: {', '.join(arms)}"
        )


def lacking(context: FitContext, arms: Sequence[str]) -> str | None:
    """Say what labels lack for ranking anew what ``arms`` found; None where they lack nothing."""
    if not arms:
        return "no arm can be run beside those that fuse others"
    if context.runs is None:
        return "the labels hold no rankings (runs.parquet)"
    if cutoff(context) is None:
        return f"it ranks for nDCG@k, and quality is {context.runs.measure}"
    if context.runs.relevant_grades is None or not grades_known(context, arms):
        return "; ".join(
            [
                "the labels don't tell how every document was judged (l2r oracle adds that "
                "without ranking anew)",
                *context.runs.lacking_grades(arms),
            ]
        )
    return None


def measured(
    context: FitContext,
    policy: OverArmSets[RankerT],
    rows: Rows,
    deciding_ms: Mapping[Combine, float],
    embedding_ms: float = 0.0,
) -> list[ArmSet[RankerT]]:
    """Each arm set with its means on ``rows``, the same queries for all.

    Where a query's dataset lacks the one arm of a set, the best of the others that it has counts.

    Args:
        shop: see there.
        policy: whose sets.
        rows: of held-out queries, all of them comparable.
        deciding_ms: taken for ranking anew, by how arms are combined.
        embedding_ms: taken for the query's vector where a set reads it and no arm's labels tell.
    """
    table = context.action.rows(rows)
    total_ms = table.total_latency_ms()
    stand_in = _stand_ins(table)
    found = []
    for number, arm_set in enumerate(policy.arm_sets):
        if arm_set.model is None:
            column = table.arms.index(arm_set.arms[0])
            columns = np.where(table.competes[:, column], column, stand_in)
            at = np.arange(len(rows)), columns
            quality, taken_ms = table.quality[at], table.latency_ms[at]
        else:
            times = deciding_ms[arm_set.model.combine], embedding_ms
            quality, taken_ms = ranked_anew(context, policy, number, rows, *times)
        share = latency_share(taken_ms, total_ms)
        found.append(
            replace(
                arm_set,
                quality=float(quality.mean()),
                share=float(share.mean()),
                latency_ms=float(taken_ms.mean()),
                queries=len(rows),
            )
        )
    return found


def _stand_ins(table: RoutingTable) -> NDArray[np.intp]:
    """(n,) of the arms that each query's dataset has, the best by mean quality."""
    known = np.where(table.competes, table.quality, 0.0)
    mean = known.sum(axis=0) / np.maximum(table.competes.sum(axis=0), 1)
    return np.asarray(np.where(table.competes, mean, -np.inf).argmax(axis=1))


def ranked_anew(
    context: FitContext,
    policy: OverArmSets[RankerT],
    number: int,
    rows: Rows,
    deciding_ms: float = 0.0,
    embedding_ms: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """(n,) realised quality, and (n,) milliseconds, of a set that ranks anew."""
    assert context.runs is not None
    arm_set, every = policy.arm_sets[number], context.every.rows(rows)
    known = PolicyInputs(
        embeddings=context.embedded[rows] if arm_set.reads_vectors else None,
        probed=context.runs.probed(arm_set.arms, rows, context.every, policy.probe_depth),
        competes=context.action.competes[rows],
        datasets=context.action.datasets[rows].tolist(),
    )
    decided = policy.merge(number, context.action.texts[rows].tolist(), known)
    own = own_quality(context.runs, rows, decided)
    reusable, taken_ms = None, np.full(len(rows), deciding_ms)
    if arm_set.reads_vectors:
        reusable = None if context.reusable_ms is None else context.reusable_ms[rows]
        taken_ms += _embedding_ms(reusable, len(rows), embedding_ms)
    outcomes = plan_outcomes(decided.plans, every, taken_ms, reusable, primary(context.runs, own))
    return outcomes.quality, outcomes.latency_ms


def _embedding_ms(reusable_ms: FloatArray | None, rows: int, otherwise: float) -> FloatArray:
    """(n,) what embedding a query takes: as an arm that makes the same vector was labelled."""
    most = np.zeros(rows) if reusable_ms is None else reusable_ms.max(axis=1)
    return np.where(most > 0, most, otherwise)
