"""A wish in the user's terms → λ: pure functions over a calibrated curve.

Two wishes are understood: a mean latency, and a mean quality given up against the best calibrated
one. Between calibrated λ both are interpolated linearly, and only for a policy that takes any λ and
changes little by little there.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence

from arms.errors import RouterError
from router.calibration import CalibratedPoint, Calibration, Measured, between


def lam_for_latency(calibration: Calibration, max_latency_ms: float) -> CalibratedPoint:
    """The smallest λ whose calibrated mean latency is at most ``max_latency_ms``.

    That is the best quality that the wish can pay for. The overhead of deciding and the latency of
    probes count in full.

    Raises:
        RouterError: the wish is no positive number, or no calibrated λ is that fast; the message
            says which is the nearest.
    """
    wish = _number("max_latency_ms", max_latency_ms, "a positive number of milliseconds")
    if wish <= 0:
        raise RouterError(f"max_latency_ms must be a positive number, got {max_latency_ms!r}")
    points = calibration.points
    fast = next((at for at, point in enumerate(points) if _latency(point).value <= wish), None)
    if fast is None:
        nearest = min(points, key=lambda point: (_latency(point).value, point.lam))
        raise RouterError(
            f"max_latency_ms={wish:g} can't be met: the fastest that this policy gets is "
            f"{_told(_latency(nearest), ' ms')} on average, at lam={nearest.lam:g}; ask for at "
            f"least max_latency_ms={_up(_latency(nearest).value):g}"
        )
    if not calibration.any_lam or fast == 0:
        return points[fast]
    return _crossing(points[fast - 1], points[fast], _latency, wish)


def lam_for_quality(calibration: Calibration, max_quality_loss: float) -> CalibratedPoint:
    """The largest λ whose calibrated mean quality is within ``max_quality_loss`` of the best.

    The best is the highest mean quality of any calibrated λ of this policy, not the oracle's. The
    largest λ that loses no more is the fastest that the wish allows.

    Raises:
        RouterError: the wish is no number in [0, 1].
    """
    wish = _number("max_quality_loss", max_quality_loss, "a number in [0, 1]")
    if not 0.0 <= wish <= 1.0:
        raise RouterError(
            f"max_quality_loss must be a number in [0, 1], got {max_quality_loss!r}; 0 is the "
            "least that can be lost: the best calibrated quality itself"
        )
    points = calibration.points
    floor = best_quality(points) - wish
    # Rounded, so that a loss of 0.3 - 0.2 counts as 0.1 in spite of binary fractions.
    good = max(at for at, point in enumerate(points) if point.quality.value >= floor - 1e-12)
    if not calibration.any_lam or good == len(points) - 1:
        return points[good]
    return _crossing(points[good], points[good + 1], _quality, floor)


def best_quality(points: Sequence[CalibratedPoint]) -> float:
    """The highest calibrated mean quality of any λ."""
    return max(point.quality.value for point in points)


def _crossing(
    a: CalibratedPoint,
    b: CalibratedPoint,
    of: Callable[[CalibratedPoint], Measured],
    level: float,
) -> CalibratedPoint:
    """Where the straight line between two neighbours reaches ``level``, which lies between them."""
    rise = of(b).value - of(a).value
    if rise == 0.0:
        return b
    weight = min(1.0, max(0.0, (level - of(a).value) / rise))
    return between(a, b, a.lam + weight * (b.lam - a.lam)) if weight < 1.0 else b


def _latency(point: CalibratedPoint) -> Measured:
    return point.latency_ms


def _quality(point: CalibratedPoint) -> Measured:
    return point.quality


def _number(name: str, given: float, expected: str) -> float:
    is_number = isinstance(given, numbers.Real) and not isinstance(given, bool)
    if not is_number or not math.isfinite(given):
        raise RouterError(f"{name} must be {expected}, got {given!r}")
    return float(given)


def _told(measured: Measured, unit: str) -> str:
    return f"{measured.value:.3g}{unit} [{measured.low:.3g}, {measured.high:.3g}]"


def _up(value: float) -> float:
    """Three significant digits, rounded up, so that the wish named can be met."""
    step = 10.0 ** (math.floor(math.log10(value)) - 2) if value > 0 else 1.0
    return math.ceil(value / step) * step
