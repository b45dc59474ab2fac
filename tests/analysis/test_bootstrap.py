"""Paired bootstrap: hand-computable cases, pairing, edges."""

import numpy as np
import pytest

from analysis.bootstrap import Estimate, Resamples, estimate_means, interval


def test_counts_are_draws_with_replacement():
    resamples = Resamples(7, 300, seed=0)
    np.testing.assert_array_equal(resamples._counts.sum(axis=1), 7)
    one_hot = np.eye(7)
    np.testing.assert_allclose(resamples.means(one_hot), resamples._counts / 7)


def test_a_constant_column_has_no_spread():
    (estimate,) = estimate_means(np.full((20, 1), 0.25), Resamples(20, 200, 1), 0.95)
    assert estimate == Estimate(0.25, 0.25, 0.25, 20)


def test_one_query_and_none():
    (single,) = estimate_means(np.array([[3.0]]), Resamples(1, 100, 1), 0.95)
    assert single == Estimate(3.0, 3.0, 3.0, 1)
    (nothing,) = estimate_means(np.zeros((0, 1)), Resamples(0, 100, 1), 0.95)
    assert nothing == Estimate(None, None, None, 0)
    assert estimate_means(np.zeros((5, 0)), Resamples(5, 100, 1), 0.95) == []


def test_two_queries_have_three_possible_means():
    replicates = Resamples(2, 4000, seed=3).means(np.array([[0.0], [1.0]]))[:, 0]
    values, counts = np.unique(replicates, return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0]
    np.testing.assert_allclose(counts / 4000, [0.25, 0.5, 0.25], atol=0.03)


def test_columns_are_resampled_together():
    rng = np.random.default_rng(4)
    base = rng.normal(size=(50, 1))
    shifted = base + 0.1
    replicates = Resamples(50, 200, 5).means(np.hstack([base, shifted]))
    np.testing.assert_allclose(replicates[:, 1] - replicates[:, 0], 0.1)


def test_missing_queries_are_left_out_of_every_resample():
    values = np.array([[1.0, 1.0], [2.0, np.nan], [3.0, 3.0], [9.0, np.nan]])
    resamples = Resamples(4, 500, 6)
    counts = resamples._counts[:, [0, 2]].astype(float)
    drawn = counts.sum(axis=1)
    with np.errstate(invalid="ignore"):
        expected = (counts @ [1.0, 3.0]) / drawn
    np.testing.assert_allclose(resamples.means(values)[:, 1], expected)
    (_, partial) = estimate_means(values, resamples, 0.95)
    assert partial.value == 2.0 and partial.n == 2


def test_an_interval_undefined_in_many_resamples_is_not_given():
    replicates = np.r_[np.full(10, np.nan), np.arange(90.0)]
    assert interval(replicates, 0.95) == (None, None)
    assert interval(np.r_[np.full(4, np.nan), np.zeros(96)], 0.95) == (0.0, 0.0)


def test_the_same_seed_gives_the_same_interval_and_another_does_not():
    values = np.random.default_rng(7).normal(size=(40, 1))
    first, again, other = (
        estimate_means(values, Resamples(40, 300, seed), 0.95)[0] for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("block", [1, 7, 300])
def test_blocks_do_not_change_means(block):
    values = np.random.default_rng(8).normal(size=(30, 3))
    resamples = Resamples(30, 300, 9)
    whole = resamples.means(values)
    resamples._block = block
    np.testing.assert_allclose(resamples.means(values), whole)


def test_signs():
    assert Estimate(1.0, 0.1, 2.0, 9).above_zero
    assert not Estimate(1.0, -0.1, 2.0, 9).above_zero
    assert Estimate(-1.0, -2.0, -0.1, 9).below_zero
    assert not Estimate(1.0, None, None, 9).above_zero
