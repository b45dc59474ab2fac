"""Hypervolume and area under the frontier: hand-computed, and against a fine grid."""

import numpy as np
import pytest

from analysis.frontier import on_frontier
from analysis.hypervolume import area_under_frontier, hypervolume, staircase_mean


def test_two_points_by_hand():
    # 2..6 ms at 0.5, 6..10 ms at 0.9: (4·0.5 + 4·0.9) / 10
    value = hypervolume(np.array([6.0, 2.0]), np.array([0.9, 0.5]), 10.0)
    assert value == pytest.approx((4 * 0.5 + 4 * 0.9) / 10)


def test_area_over_the_logarithm_by_hand():
    # From 1 to 100 ms in two decades: nothing before 1, 0.4 over the first, 0.8 over the second.
    value = area_under_frontier(np.array([1.0, 10.0]), np.array([0.4, 0.8]), 1.0, 100.0)
    assert value == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("latency", "quality", "expected"),
    [
        ([], [], 0.0),
        ([5.0], [0.4], 0.2),
        ([5.0, 5.0], [0.4, 0.4], 0.2),  # a duplicate adds nothing
        ([5.0, 5.0], [0.1, 0.4], 0.2),  # a tie in latency: the better one counts
        ([5.0, 7.0], [0.4, 0.3], 0.2),  # a dominated point adds nothing
        ([10.0], [0.9], 0.0),  # at the reference
        ([12.0, 5.0], [0.9, 0.4], 0.2),  # beyond the reference
        ([0.0], [0.5], 0.5),
        ([np.nan, 5.0], [0.9, 0.4], 0.2),
        ([1.0, 5.0], [np.nan, 0.4], 0.2),
    ],
)
def test_edges(latency, quality, expected):
    value = hypervolume(np.array(latency), np.array(quality), 10.0)
    assert value == pytest.approx(expected)


def test_equals_a_fine_grid_and_depends_on_the_frontier_alone():
    rng = np.random.default_rng(3)
    budgets = (np.arange(20_000) + 0.5) / 20_000
    for _ in range(50):
        x, y = rng.random(6), rng.random(6)
        reached = np.where(x[None, :] <= budgets[:, None], y[None, :], 0.0).max(axis=1)
        value = staircase_mean(x, y, 0.0, 1.0)
        assert value == pytest.approx(reached.mean(), abs=1e-4)
        best = on_frontier(x, y)
        assert staircase_mean(x[best], y[best], 0.0, 1.0) == pytest.approx(value)


def test_rows_are_independent():
    rng = np.random.default_rng(4)
    x, y = rng.random((30, 5)), rng.random((30, 5))
    together = staircase_mean(x, y, 0.1, 0.9)
    np.testing.assert_allclose(
        together, [staircase_mean(a, b, 0.1, 0.9) for a, b in zip(x, y, strict=True)]
    )


def test_a_point_of_no_latency_counts_before_every_budget():
    assert area_under_frontier(np.array([0.0]), np.array([0.5]), 1.0, 10.0) == pytest.approx(0.5)


def test_an_empty_range_is_refused():
    with pytest.raises(ValueError, match="low < high is expected"):
        staircase_mean(np.array([1.0]), np.array([1.0]), 2.0, 2.0)


def test_intervals_of_frontiers_hold_the_value_and_pair_policies(results):
    areas = {one.policy: one for one in results.test.areas.areas}
    router = areas["router"]
    assert router.hypervolume_difference is None and router.points == len(results.lams)
    for name, one in areas.items():
        for estimate in (one.hypervolume, one.area):
            assert estimate.low <= estimate.value <= estimate.high, name
        if name != "router":
            difference = router.hypervolume.value - one.hypervolume.value
            assert one.hypervolume_difference.value == pytest.approx(difference)
    together, alone = areas["all static arms and the router"], areas["all static arms"]
    assert together.hypervolume.value >= max(alone.hypervolume.value, router.hypervolume.value)
    paired = alone.hypervolume_difference
    width = paired.high - paired.low
    unpaired = (router.hypervolume.high - router.hypervolume.low) + (
        alone.hypervolume.high - alone.hypervolume.low
    )
    assert width < unpaired
