import numpy as np
import pytest

from training.selection import simplest_within_error


def test_a_clear_gain_is_taken():
    simple, better = np.full(100, 0.5), np.full(100, 0.6)
    assert simplest_within_error([simple, better], 1.0) == 1


def test_a_gain_within_the_noise_is_not():
    random = np.random.default_rng(0)
    simple = np.full(100, 0.5)
    noisy = 0.5 + random.normal(0.0, 0.5, 100)
    noisy += 0.52 - noisy.mean()  # ahead by 0.02, with a standard error of about 0.05
    assert simplest_within_error([simple, noisy], 1.0) == 0
    assert simplest_within_error([simple, noisy], 0.0) == 1
    assert simplest_within_error([simple, noisy], 0.3) == 1


def test_ties_and_single_queries_go_to_the_simplest():
    assert simplest_within_error([np.ones(3), np.ones(3)], 0.0) == 0
    assert simplest_within_error([np.zeros(1), np.ones(1)], 1.0) == 1
    assert simplest_within_error([np.zeros(4)], 1.0) == 0


@pytest.mark.parametrize("tolerance_se", [0.0, 1.0])
def test_the_differences_are_paired(tolerance_se):
    # Rewards vary widely between queries; the gain of 0.01 on each is certain all the same.
    wide = np.linspace(0.0, 1.0, 50)
    assert simplest_within_error([wide, wide + 0.01], tolerance_se) == 1
