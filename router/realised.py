"""What decided plans come to on queries with labels: which arms run, latency, share, quality.

The one definition of it: training (metrics, calibration, the default policy, sets of arms) and
analysis (every report) read labels differently and add up the same way. A plan takes the latency of
every arm it runs and the policy's own overhead, less the encoding that its arms take from the
policy. That over the sum of the declared arms' latencies is its share, which Equation 1
(:func:`arms.reward.reward`) turns into a reward. Its quality is that of the arm that answers, or of
the ranking that the policy made itself.

Arrays are (n,) or (n, P): n queries in the plans' order, P labelled arms in the labels' order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray, latency_share, reward
from router.policy import Plan


def answering_columns(plans: Sequence[Plan], arms: Sequence[str]) -> NDArray[np.intp]:
    """(n,) column, among ``arms``, of the arm whose ranking answers, or would alone.

    Raises:
        KeyError: a plan is answered by another arm.
    """
    column_of = {arm: column for column, arm in enumerate(arms)}
    return np.array([column_of[plan.answering_arm] for plan in plans], dtype=np.intp)


def arms_run(plans: Sequence[Plan], arms: Sequence[str]) -> BoolArray:
    """(n, P) the arms that each plan names. One that the query's dataset lacks isn't run.

    Take the latter out with ``&``: what is there is the labels' to say.

    Raises:
        KeyError: a plan names an arm that isn't among ``arms``.
    """
    column_of = {arm: column for column, arm in enumerate(arms)}
    runs = np.zeros((len(plans), len(arms)), dtype=bool)
    for row, plan in enumerate(plans):
        runs[row, [column_of[arm] for arm in plan.arms]] = True
    return runs


def sum_over_run(runs: BoolArray, values: FloatArray) -> FloatArray:
    """(n,) sum of (n, P) milliseconds over the arms run; NaN where one of them has none."""
    return np.asarray(np.where(runs, values, 0.0).sum(axis=1))


def plan_latency_ms(
    arms_ms: FloatArray, overhead_ms: float | FloatArray, reused_ms: float | FloatArray = 0.0
) -> FloatArray:
    """(n,) milliseconds: ``Σ L of the arms run + overhead − reused encoding``.

    Arms can't save more than they take: see :func:`reused_at_most`.
    """
    return np.asarray(arms_ms + overhead_ms - reused_at_most(reused_ms, arms_ms))


def reused_at_most(reused_ms: float | FloatArray, arms_ms: FloatArray) -> FloatArray:
    """(n,) the encoding reused, at most what the arms took; as it is where that is NaN."""
    return np.asarray(np.fmin(reused_ms, arms_ms))


def answered_quality(
    of_arm: FloatArray, own: FloatArray | None, answers: BoolArray | None = None
) -> FloatArray:
    """(n,) quality of the answer: a policy's own ranking where it made one, an arm's elsewhere.

    Args:
        of_arm: (n,) quality of the answering arm.
        own: (n,) of the policy's own rankings, NaN where an arm answers; None: one always does.
        answers: (n,) where the policy made the ranking; None: where ``own`` is known. A further
            measure may be unknown where the policy did answer.
    """
    if own is None:
        return of_arm
    return np.where(np.isfinite(own) if answers is None else answers, own, of_arm)


def plan_reward(
    quality: FloatArray, latency_ms: FloatArray, total_ms: FloatArray, lam: float
) -> FloatArray:
    """(n,) Equation 1 for plans; ``total_ms`` (n,) is the sum of the declared arms' latencies."""
    return reward(quality, latency_share(latency_ms, total_ms), lam)
