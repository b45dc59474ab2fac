from dataclasses import replace

import numpy as np
import pytest

from oracle.best_arm import best_arms, best_columns, oracle_reward
from oracle.labels import Labels


def labels() -> Labels:
    def words(*values):
        return np.array(values, dtype=object)

    status = np.full((4, 3), "ok", dtype=object)
    status[2, 2] = "skipped"
    status[3, 0] = "timeout"
    quality = np.array([[1, 1, 0.5], [0, 0.5, 1], [0.2, 0.1, np.nan], [np.nan, 1, 1]])
    latency = np.array([[10, 30, 60], [1, 1, 8], [3, 1, np.nan], [np.nan, 1, 1]])
    return Labels(
        pipelines=("a", "b", "late"),
        router_arms=("a", "b"),
        datasets=words("x", "x", "y", "z"),
        query_ids=words("1", "2", "1", "1"),
        splits=words(*["test"] * 4),
        text_groups=words(*"abcd"),
        texts=None,
        status=status,
        quality={"nDCG@5": quality},
        latency_ms=latency,
        manifest={"measures": ["nDCG@5"]},
    )


def rows(table, lam, arm_set):
    return [one for one in table.to_pylist() if (one["lam"], one["arm_set"]) == (lam, arm_set)]


def test_reward_by_hand():
    found = oracle_reward(labels(), ("a", "b", "late"), 0.1)
    assert found[0].tolist() == pytest.approx([0.9 + 0.09, 0.9 + 0.07, 0.45 + 0.04])
    assert found[2, :2].tolist() == pytest.approx([0.18 + 0.025, 0.09 + 0.075])
    assert np.isnan(found[2, 2])  # the dataset lacks it
    assert np.isnan(found[3]).all()  # an arm failed: the query leaves for all


def test_ties_and_the_query_that_leaves():
    table = best_arms(labels(), (0.0, 0.5))
    assert len(table) == 2 * 2 * 4
    at_zero = rows(table, 0.0, "pipelines")
    assert [one["best_arm"] for one in at_zero] == ["a", "late", "a", None]
    slower = replace(labels(), latency_ms=labels().latency_ms * [[4.0, 1.0, 1.0]])
    at_zero_slower = rows(best_arms(slower, (0.0,)), 0.0, "pipelines")
    assert [one["best_arm"] for one in at_zero_slower] == ["b", "late", "a", None]
    assert [one["ties"] for one in at_zero] == [["a", "b"], ["late"], ["a"], []]
    assert [one["reward"] for one in at_zero] == [1.0, 1.0, 0.2, None]


def test_of_tied_arms_the_fastest_on_the_query_is_the_best():
    rewards = np.array([[0.5, 0.5 + 1e-13, 0.4], [0.5, 0.5, 0.5], [np.nan, np.nan, np.nan]])
    latency_ms = np.array([[2.0, 3.0, 1.0], [2.0, 1.0, 1.0], [np.nan, np.nan, np.nan]])
    assert best_columns(rewards, latency_ms).tolist() == [0, 1, -1]
    assert best_columns(rewards[:, :0], latency_ms[:, :0]).tolist() == [-1, -1, -1]


def test_each_set_is_normalised_by_itself():
    table = best_arms(labels(), (0.5,))
    router, everything = rows(table, 0.5, "router")[1], rows(table, 0.5, "pipelines")[1]
    assert (router["best_arm"], router["reward"]) == ("b", pytest.approx(0.25 + 0.25))
    assert (everything["best_arm"], everything["reward"]) == ("b", pytest.approx(0.25 + 0.45))
