import numpy as np

from oracle.best_static import BestStatic, first_available, fit_best_static, static_order

NONE = np.nan


def words(*values):
    return np.array(values, dtype=object)


def test_an_arm_that_some_queries_lack_comes_after_those_that_all_have():
    rewards = np.array([[0.4, 1.0, NONE], [0.4, NONE, NONE], [0.6, NONE, 0.9]])
    latency_ms = np.where(np.isnan(rewards), np.nan, 1.0)
    assert static_order(rewards, latency_ms).tolist() == [0, 1, 2]
    found = first_available(np.array([1, 2, 0]), np.isfinite(rewards))
    assert found.tolist() == [1, 0, 2]


def test_ties_go_to_the_lower_mean_latency_then_to_order():
    rewards = np.array([[0.6, 0.5, 0.5, 0.5 + 1e-13], [0.2, 0.3, 0.3, 0.3]])
    latency_ms = np.array([[1.0, 9.0, 2.0, 3.0], [1.0, 1.0, 4.0, 3.0]])  # means 1, 5, 3, 3
    assert static_order(rewards, latency_ms).tolist() == [0, 2, 3, 1]


def test_each_dataset_has_its_own_best_arm_and_a_new_one_the_best_of_all():
    rewards = np.array([[1.0, 0.0, 0.9], [0.0, 0.8, 0.7], [0.0, 0.8, 0.7]])
    found = fit_best_static(rewards, np.ones((3, 3)), words("x", "y", "y"))
    assert found.overall.tolist() == [2, 1, 0]  # .767, .533, .333
    has = np.array([[True] * 3, [True, False, True], [True] * 3, [False, True, False]])
    assert found.choose(has).tolist() == [2, 2, 2, 1]
    datasets = words("x", "y", "z", "z")
    assert found.choose_per_dataset(datasets, has).tolist() == [0, 2, 2, 1]


def test_nothing_to_pick_from():
    empty = fit_best_static(np.zeros((0, 2)), np.zeros((0, 2)), words())
    assert empty == BestStatic(empty.overall, {}) and empty.overall.tolist() == [0, 1]
