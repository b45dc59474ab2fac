"""The best static arms that training picks: by the reward that reports score by."""

import numpy as np

from tests.training.tables import make_table
from training.fitting import fit_best_static

LATENCY_MS = [[10.0, 30.0, 160.0]] * 2


def tables(comparable=None):
    """Arms a, b of A, and c, which was run beside them."""
    every = make_table(
        [[0.5, 0.6, 0.0], [0.5, 0.6, 0.0]],
        latency_ms=LATENCY_MS,
        datasets=["x", "y"],
        comparable=comparable,
    )
    action = make_table(
        every.quality[:, :2], latency_ms=every.latency_ms[:, :2], datasets=["x", "y"]
    )
    return every, action


def test_arms_are_picked_by_the_shares_that_they_are_scored_by():
    # λ = 0.3 over A, 40 ms: a has .7·.5 + .3·.75 = .575, b .42 + .3·.25 = .495. Over P, 200 ms,
    # it would be .635 against .675.
    found = fit_best_static(*tables(), (0.0, 0.3))
    assert found[0.0].overall.tolist() == [1, 0, 2]
    assert found[0.3].overall.tolist() == [0, 1, 2]
    assert {name: order[0] for name, order in found[0.3].per_dataset.items()} == {"x": 0, "y": 0}


def test_queries_on_which_an_arm_failed_are_left_out():
    every, action = tables(comparable=[True, False])
    every.quality[1] = [1.0, 0.0, 0.0]
    found = fit_best_static(every, action, (0.0,))[0.0]
    assert found.overall.tolist() == [1, 0, 2]
    assert set(found.per_dataset) == {"x"}
    has = np.ones((1, 3), dtype=bool)
    assert found.choose_per_dataset(np.array(["y"], dtype=object), has).tolist() == [1]
