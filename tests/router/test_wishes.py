"""A wish in milliseconds or in quality → λ, on curves small enough to compute by hand."""

import json
import math
import re
from dataclasses import replace

import pytest

from arms.errors import RouterError
from router.calibration import (
    CalibratedPoint,
    Calibration,
    Measured,
    calibration_from_json,
    calibration_to_json,
    promised,
)
from router.targets import lam_for_latency, lam_for_quality


def around(value: float) -> Measured:
    return Measured(value, value * 0.9, value * 1.1)


def curve(any_lam: bool, *rows: tuple[float, float, float]) -> Calibration:
    """Rows: λ, mean milliseconds, mean quality."""
    points = tuple(
        CalibratedPoint(
            lam,
            around(ms),
            around(2 * ms),
            around(quality),
            {"a": around(1 - lam), "b": around(lam)},
        )
        for lam, ms, quality in rows
    )
    return Calibration("val", {"npl": 3, "scifact": 1}, 0.95, any_lam, "hash", points)


ROWS = ((0.0, 100.0, 0.70), (0.2, 60.0, 0.68), (0.6, 20.0, 0.60), (1.0, 4.0, 0.40))
TRAINED, ANY = curve(False, *ROWS), curve(True, *ROWS)


@pytest.mark.parametrize(
    ("wish", "lam", "promised_ms"),
    [(100, 0.0, 100.0), (1e6, 0.0, 100.0), (99.9, 0.2, 60.0), (60, 0.2, 60.0), (40, 0.6, 20.0),
     (4, 1.0, 4.0)],
)  # fmt: skip
def test_trained_lams_take_the_smallest_that_is_fast_enough(wish, lam, promised_ms):
    point = lam_for_latency(TRAINED, wish)
    assert (point.lam, point.latency_ms.value) == (lam, promised_ms)


@pytest.mark.parametrize(
    ("wish", "lam"),
    [(100, 0.0), (500, 0.0), (80, 0.1), (60, 0.2), (50, 0.3), (40, 0.4), (12, 0.8), (4, 1.0)],
)
def test_any_lam_is_interpolated_between_neighbours(wish, lam):
    point = lam_for_latency(ANY, wish)
    assert point.lam == pytest.approx(lam)
    assert point.latency_ms.value == pytest.approx(min(wish, 100))


def test_intervals_and_the_rest_are_interpolated_too():
    point = lam_for_latency(ANY, 40)  # half-way between λ = 0.2 and 0.6
    assert point.latency_ms.low == pytest.approx(36)
    assert point.latency_p95_ms.high == pytest.approx(88)
    assert point.quality.value == pytest.approx(0.64)
    assert {arm: share.value for arm, share in point.share.items()} == pytest.approx(
        {"a": 0.6, "b": 0.4}
    )


def test_a_curve_that_rises_again_takes_the_first_crossing():
    bumpy = curve(True, (0.0, 50, 0.7), (0.5, 30, 0.6), (0.75, 40, 0.65), (1.0, 10, 0.4))
    assert lam_for_latency(bumpy, 35).lam == pytest.approx(0.375)
    assert lam_for_latency(replace(bumpy, any_lam=False), 35).lam == 0.5


@pytest.mark.parametrize("calibration", [TRAINED, ANY])
def test_an_impossible_latency_names_the_nearest_possible(calibration):
    with pytest.raises(RouterError) as raised:
        lam_for_latency(calibration, 3)
    told = str(raised.value)
    assert "the fastest that this policy gets is 4 ms [3.6, 4.4] on average, at lam=1" in told
    named = float(re.search(r"at least max_latency_ms=(\S+)", told).group(1))
    assert lam_for_latency(calibration, named).lam == 1.0


@pytest.mark.parametrize("fastest", [0.000123456, 3.14159, 99.96, 12345.6])
def test_the_nearest_possible_wish_can_be_met(fastest):
    one = curve(False, (0.5, fastest, 0.5))
    with pytest.raises(RouterError) as raised:
        lam_for_latency(one, fastest / 2)
    named = float(re.search(r"at least max_latency_ms=(\S+)", str(raised.value)).group(1))
    assert fastest <= named <= fastest * 1.02
    assert lam_for_latency(one, named).lam == 0.5


@pytest.mark.parametrize("wish", [0, -1, math.nan, math.inf, True, "fast", None])
def test_a_latency_must_be_a_positive_number(wish):
    with pytest.raises(RouterError, match="max_latency_ms must be a positive number"):
        lam_for_latency(TRAINED, wish)


@pytest.mark.parametrize(
    ("loss", "lam"), [(0, 0.0), (0.02, 0.2), (0.05, 0.2), (0.1, 0.6), (0.3, 1.0), (1, 1.0)]
)
def test_quality_takes_the_largest_trained_lam_within_the_loss(loss, lam):
    assert lam_for_quality(TRAINED, loss).lam == lam


@pytest.mark.parametrize(
    ("loss", "lam"), [(0, 0.0), (0.01, 0.1), (0.02, 0.2), (0.06, 0.4), (0.2, 0.8), (0.3, 1.0)]
)
def test_quality_of_any_lam_is_interpolated(loss, lam):
    point = lam_for_quality(ANY, loss)
    assert point.lam == pytest.approx(lam)
    assert point.quality.value == pytest.approx(0.7 - loss)


def test_the_loss_is_against_the_best_calibrated_quality_wherever_it_lies():
    humped = curve(False, (0.0, 50, 0.68), (0.3, 30, 0.70), (1.0, 10, 0.69))
    assert lam_for_quality(humped, 0.0).lam == 0.3
    assert lam_for_quality(humped, 0.01).lam == 1.0
    assert lam_for_quality(humped, 0.005).lam == 0.3


@pytest.mark.parametrize("loss", [-0.01, 1.01, math.nan, "little", False])
def test_a_loss_must_lie_between_0_and_1(loss):
    with pytest.raises(RouterError, match=r"max_quality_loss must be a number in \[0, 1\]"):
        lam_for_quality(TRAINED, loss)


def test_what_is_promised_at_a_lam():
    assert promised(ANY.points, 0.2) == ANY.points[1]
    assert promised(ANY.points, 0.1).latency_ms.value == pytest.approx(80)
    cut = ANY.points[1:3]
    assert promised(cut, 0.0) == cut[0]
    assert promised(cut, 1.0) == cut[1]


def test_json_round_trip_and_damage():
    content = json.loads(json.dumps(calibration_to_json(ANY)))
    assert calibration_from_json(content) == ANY
    assert ANY.queries == 4
    for damage in ({"points": []}, {"points": content["points"][::-1]}, {"datasets": 3}):
        with pytest.raises((ValueError, KeyError, TypeError, AttributeError)):
            calibration_from_json(content | damage)
    holed = json.loads(json.dumps(content))
    holed["points"][0]["latency_ms"]["low"] = None
    with pytest.raises(TypeError):
        calibration_from_json(holed)
