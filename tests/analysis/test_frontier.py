"""The frontier equals brute force."""

import numpy as np
import pytest

from analysis.frontier import on_frontier


def brute_force(latency, quality):
    found = np.ones(len(latency), dtype=bool)
    for i in range(len(latency)):
        for j in range(len(latency)):
            no_worse = latency[j] <= latency[i] and quality[j] >= quality[i]
            better = latency[j] < latency[i] or quality[j] > quality[i]
            found[i] &= not (no_worse and better)
    return found


def test_equals_brute_force_on_a_thousand_clouds():
    rng = np.random.default_rng(0)
    for cloud in range(1000):
        n = int(rng.integers(1, 14))
        levels = int(rng.integers(2, 6))  # few levels: many ties and duplicates
        latency = rng.integers(0, levels, n).astype(float)
        quality = rng.integers(0, levels, n) / levels if cloud % 2 else rng.random(n)
        np.testing.assert_array_equal(
            on_frontier(latency, quality), brute_force(latency, quality), err_msg=str(cloud)
        )


@pytest.mark.parametrize(
    ("latency", "quality", "expected"),
    [
        ([], [], []),
        ([3.0], [0.1], [True]),
        ([1.0, 1.0], [0.5, 0.5], [True, True]),
        ([1.0, 2.0], [0.5, 0.5], [True, False]),
        ([1.0, 1.0], [0.4, 0.5], [False, True]),
        ([1.0, np.nan, 2.0], [0.4, 0.9, np.nan], [True, False, False]),
    ],
)
def test_edges(latency, quality, expected):
    assert on_frontier(np.array(latency), np.array(quality)).tolist() == expected
