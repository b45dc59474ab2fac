"""The oracle's picks, its ties, and the best static arm."""

import numpy as np

from analysis.best_static import hindsight_outcomes, trained_outcomes
from analysis.evaluation import evaluate_queries
from analysis.oracle_policy import best_arms, oracle_outcomes
from tests.analysis.synthetic import World, best_columns, make_world, rewards

ARMS = ("slow", "fast", "late")


def evaluation_of(tmp_path, quality, latency, status=None):
    quality = np.array(quality, dtype=float)
    n = len(quality)
    world = World(
        quality,
        np.array(latency, dtype=float),
        ["a"] * n,
        ["test"] * n,
        ARMS,
        ("slow", "fast"),
        status,
    )
    labels = world.write(tmp_path)
    return evaluate_queries(labels, np.arange(n), "test", labels.router_arms)


def test_ties_go_to_the_cheaper_then_to_the_order_of_arms(tmp_path):
    quality = [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0.7, 0.5, 0.9]]
    evaluation = evaluation_of(tmp_path, quality, [[9, 3, 5], [4, 4, 4], [9, 3, 50]])
    np.testing.assert_array_equal(best_arms(evaluation, 0.0, ARMS), [1, 0, 2])
    np.testing.assert_array_equal(best_arms(evaluation, 0.0, ("slow", "fast")), [1, 0, 0])
    np.testing.assert_array_equal(best_arms(evaluation, 1.0, ARMS), [1, 0, 1])


def test_absent_arms_are_never_picked(tmp_path):
    status = np.array([["ok", "skipped", "skipped"], ["skipped"] * 3, ["ok"] * 3], dtype=object)
    evaluation = evaluation_of(tmp_path, [[0.1, 0.9, 0.9]] * 3, [[1, 1, 1]] * 3, status)
    np.testing.assert_array_equal(best_arms(evaluation, 0.0, ARMS), [0, -1, 1])


def test_both_oracles_are_upper_bounds_on_their_own_arms(tmp_path):
    labels = make_world(n=200).write(tmp_path)
    rows = np.arange(200)
    evaluation = evaluate_queries(labels, rows, "test", labels.router_arms)
    for lam in (0.0, 0.3, 1.0):
        over_a, over_p = (one.reward for one in oracle_outcomes(evaluation, (lam,)))
        table = rewards(labels, lam)
        np.testing.assert_allclose(over_p, table.max(axis=1))
        np.testing.assert_allclose(over_a, table[rows, best_columns(labels, lam)])
        assert (over_p >= over_a - 1e-12).all()


def test_the_best_static_arm_is_the_best_mean_and_must_have_every_query(tmp_path):
    def hindsight(name, status=None):
        evaluation = evaluation_of(tmp_path / name, quality, latency, status)
        (found,) = hindsight_outcomes(evaluation, (0.0,))
        return found.answering_arm.tolist()

    quality = [[0.6, 0.1, 0.9], [0.6, 0.9, 0.9]]
    status = np.array([["ok", "ok", "ok"], ["ok", "ok", "skipped"]], dtype=object)
    latency = [[5, 1, 1], [5, 1, 1]]
    assert hindsight("all") == [2, 2]
    assert hindsight("cut", status) == [0, 0]
    nobody = np.array([["ok", "skipped", "ok"], ["skipped", "ok", "skipped"]], dtype=object)
    assert hindsight("no", nobody) == [2, 1]  # no arm has all: each query the best that it has


def test_hindsight_and_training_may_pick_different_arms(tmp_path):
    quality = np.array([[0.9, 0.1, 0.1]] * 3 + [[0.1, 0.9, 0.1]] * 2)
    splits = ["train", "train", "val", "test", "test"]
    world = World(quality, np.ones((5, 3)), ["a"] * 5, splits, ARMS, ("slow", "fast"))
    labels = world.write(tmp_path)
    evaluation = evaluate_queries(labels, np.array([3, 4]), "test", labels.router_arms)
    (picked,) = trained_outcomes(labels, evaluation, (0.0,))
    (hindsight,) = hindsight_outcomes(evaluation, (0.0,))
    assert picked.answering_arm.tolist() == [0, 0]
    assert hindsight.answering_arm.tolist() == [1, 1]
