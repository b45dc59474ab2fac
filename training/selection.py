"""Which of several fitted heads to keep: the simplest that isn't measurably worse than the best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arms.reward import FloatArray


def simplest_within_error(rewards: Sequence[FloatArray], tolerance_se: float) -> int:
    """Return the place of the first candidate near enough to the one with the highest mean.

    Near enough: the mean of its paired differences from the best is at most ``tolerance_se``
    standard errors of those differences. With 0, the first of the best. This is the
    one-standard-error rule (Breiman et al., Classification and Regression Trees, 1984), on paired
    differences: a few hundred validation queries can't tell a small gain from noise, and without
    the rule the most flexible of many candidates wins by luck.

    Args:
        rewards: per candidate, simplest first, (Q,) the reward on each validation query; Q ≥ 1.
        tolerance_se: how many standard errors.
    """
    best = max(range(len(rewards)), key=lambda place: (rewards[place].mean(), -place))
    for place, candidate in enumerate(rewards):
        lost = rewards[best] - candidate
        error = lost.std(ddof=1) / np.sqrt(len(lost)) if len(lost) > 1 else 0.0
        if lost.mean() <= tolerance_se * error:
            return place
    return best
