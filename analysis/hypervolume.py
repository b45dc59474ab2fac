"""How much of the accuracy–latency plane a set of operating points covers.

Both numbers integrate the same staircase, the best quality to be had within a latency:
hypervolume over milliseconds (Zitzler & Thiele 1998, doi:10.1007/BFb0056872), the area under the
frontier over the logarithm of milliseconds, as the figure draws it. Each is divided by its range,
so it is the mean of the best quality over latency budgets, and lies in [0, 1].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def staircase_mean(x: FloatArray, y: FloatArray, low: float, high: float) -> FloatArray:
    """Mean over [low, high] of ``max {y_i : x_i ≤ t}``, 0 before the first point.

    Args:
        x: (..., m) positions of m points; those below ``low`` count from ``low`` on, those above
            ``high`` not at all.
        y: (..., m) heights, at least 0; NaN counts as 0.
        low: where the range begins.
        high: where it ends; above ``low``.

    Returns:
        (...,) one mean per set of points; 0 where there is no point.
    """
    if not high > low:
        raise ValueError(f"a range with low < high is expected, got [{low}, {high}]")
    missing = np.isnan(x) | np.isnan(y)
    places = np.clip(np.where(missing, high, x), low, high)
    heights = np.where(missing, 0.0, y)
    order = np.argsort(places, axis=-1, kind="stable")
    places = np.take_along_axis(places, order, axis=-1)
    best = np.maximum.accumulate(np.take_along_axis(heights, order, axis=-1), axis=-1)
    ends = np.concatenate([places[..., 1:], np.full((*places.shape[:-1], 1), high)], axis=-1)
    return np.asarray(((ends - places) * best).sum(axis=-1) / (high - low))


def hypervolume(latency_ms: FloatArray, quality: FloatArray, reference_ms: float) -> FloatArray:
    """Share of the rectangle from the reference point (``reference_ms``, quality 0) to (0, 1)
    that the points dominate; arrays are (..., m).
    """
    return staircase_mean(latency_ms, quality, 0.0, reference_ms)


def area_under_frontier(
    latency_ms: FloatArray, quality: FloatArray, fastest_ms: float, slowest_ms: float
) -> FloatArray:
    """Mean of the best quality over budgets spread evenly in the logarithm of milliseconds,
    from ``fastest_ms`` (above 0) to ``slowest_ms``; arrays are (..., m).
    """
    with np.errstate(divide="ignore"):  # 0 ms: before every budget
        return staircase_mean(
            np.log(latency_ms), quality, float(np.log(fastest_ms)), float(np.log(slowest_ms))
        )
