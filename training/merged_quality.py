"""The quality of rankings that a policy makes itself: plans that merge what arms found."""

from __future__ import annotations

from collections.abc import Mapping

from arms.reward import FloatArray
from router.policy import Decisions
from training.fitting import Rows
from training.recorded_runs import RecordedRuns


def own_quality(
    runs: RecordedRuns | None, rows: Rows, decided: Decisions
) -> Mapping[str, FloatArray] | None:
    """Measure → (n,) of a policy's own rankings, NaN where an arm answers; None without any.

    Raises:
        LabelsError: the labels don't tell how the documents were judged.
    """
    if decided.rankings is None or runs is None:
        return None
    return runs.quality_of(rows, decided.rankings, _arms_of(decided))


def own_ceiling(
    runs: RecordedRuns | None, rows: Rows, decided: Decisions
) -> Mapping[str, FloatArray] | None:
    """Measure → (n,) of what a policy ranked itself, in the ideal order; else as own_quality.

    The most that any ranking of the candidates which the policy saw could come to.

    Raises:
        LabelsError: the labels don't tell how the documents were judged.
    """
    if decided.rankings is None or runs is None:
        return None
    return runs.ceiling_of(rows, decided.rankings, _arms_of(decided))


def _arms_of(decided: Decisions) -> tuple[str, ...]:
    return tuple(dict.fromkeys(arm for plan in decided.plans for arm in plan.arms))


def primary(runs: RecordedRuns | None, own: Mapping[str, FloatArray] | None) -> FloatArray | None:
    """(n,) of the measure that serves as quality; None where no ranking is the policy's own."""
    return None if own is None or runs is None else own[runs.measure]
