import numpy as np
import pytest

from tests.training.tables import make_table
from training.decide import Chosen
from training.held_out import collapse_warnings, expected_per_arm, held_out_metrics


def test_metrics_of_a_hand_computed_table():
    table = make_table(
        [[1.0, 0.5], [0.2, 0.6], [0.0, 0.0]],
        latency_ms=[[1.0, 3.0], [1.0, 3.0], [1.0, 3.0]],
        comparable=[True, True, False],
    )
    metrics = held_out_metrics(table, Chosen(np.array([0, 0, 0]), np.ones(3)), 0.5)
    # Rewards: 0.5·s + 0.5·(1 − l), l = 0.25 and 0.75.
    assert metrics["reward"] == pytest.approx((0.875 + 0.475) / 2)
    assert metrics["regret"] == pytest.approx(0.0)
    assert metrics["quality"] == pytest.approx(0.6)
    assert metrics["latency_ms"] == pytest.approx(1.0)
    assert metrics["queries"] == 2
    assert metrics["share"] == {"a": 1.0, "b": 0.0}
    assert not metrics["collapsed"]  # the oracle goes to a as well


def test_probes_and_overhead_are_charged_as_in_reports():
    table = make_table([[1.0, 0.5], [0.2, 0.6]], latency_ms=[[1.0, 3.0], [1.0, 3.0]])
    chosen, latency_ms = np.array([0, 1]), np.array([3.0, 3.4])
    metrics = held_out_metrics(table, Chosen(chosen, latency_ms), 0.5)
    # Rewards: 0.5·1 + 0.5·(1 − 3/4) and 0.5·0.6 + 0.5·(1 − 3.4/4); the oracle's .875 and .475.
    assert metrics["reward"] == pytest.approx((0.625 + 0.375) / 2)
    assert metrics["regret"] == pytest.approx((0.25 + 0.1) / 2)
    assert metrics["latency_ms"] == pytest.approx((3.0 + 3.4) / 2)
    assert metrics["quality"] == pytest.approx(0.8)
    unknown = held_out_metrics(table, Chosen(chosen, np.array([3.0, np.nan])), 0.5)
    assert (unknown["queries"], unknown["reward"]) == (1, pytest.approx(0.625))
    fusing = held_out_metrics(table, Chosen(chosen, None), 0.5)
    assert set(fusing) == {"queries", "share", "oracle_share", "collapsed"}


def test_a_router_that_stopped_choosing_is_flagged():
    quality = np.tile([[1.0, 0.0], [0.0, 1.0]], (20, 1))
    table = make_table(quality)
    assert held_out_metrics(table, Chosen(np.zeros(40, dtype=int), None), 0.0)["collapsed"]
    fixed = held_out_metrics(table, Chosen(np.zeros(40, dtype=int), None), 0.0, chooses=False)
    assert fixed["collapsed"] is False
    chosen = np.zeros(40, dtype=int)
    chosen[:3] = 1  # 92.5 % to one arm
    assert not held_out_metrics(table, Chosen(chosen, None), 0.0)["collapsed"]


def test_nothing_comparable():
    table = make_table([[0.1, 0.2]], comparable=[False])
    assert held_out_metrics(table, Chosen(np.array([0]), None), 0.0) == {"queries": 0}
    assert expected_per_arm(table, Chosen(np.array([0]), None)) == {}


def test_expectations_are_over_the_queries_sent_where_there_are_enough():
    quality = np.concatenate([np.tile([[0.9, 0.1]], (30, 1)), np.tile([[0.3, 0.5]], (10, 1))])
    table = make_table(quality, latency_ms=np.tile([[2.0, 8.0]], (40, 1)))
    expected = expected_per_arm(table, Chosen(np.array([0] * 30 + [1] * 10), None))
    assert (expected["a"].quality, expected["a"].queries) == (pytest.approx(0.9), 30)
    assert (expected["b"].quality, expected["b"].queries) == (pytest.approx(0.2), 40)
    assert expected["b"].latency_ms == pytest.approx(8.0)


def test_a_collapse_is_told_once_per_policy_with_what_the_oracle_does():
    table = make_table(np.tile([[1.0, 0.0], [0.0, 1.0]], (20, 1)))
    collapsed = held_out_metrics(table, Chosen(np.zeros(40, dtype=int), None), 0.0)
    choosing = held_out_metrics(table, Chosen(np.arange(40) % 2, None), 0.0)
    metrics = {
        "router": {
            "0": {"val": collapsed, "test": choosing},
            "0.1": {"val": {"queries": 0}, "test": collapsed},
            "0.3": {"val": choosing, "test": collapsed},
            "0.5": {"val": collapsed, "test": choosing},
        },
        "other": {"0": {"val": {"queries": 0}, "test": {"queries": 0}}},
    }
    assert collapse_warnings(metrics) == [
        "router has collapsed at λ = 0, 0.5: it sends 100 % of the validation queries to a; the "
        "oracle over the same arms sends 50 % there",
        "router has collapsed at λ = 0.1: it sends 100 % of the test queries to a; the oracle "
        "over the same arms sends 50 % there",
    ]
