"""The linear fusion that merging's models start from."""

import numpy as np

from training.start_fusion import fit_fusion


def noisy(queries=300, seed=0):
    """Of each query five candidates, one of them relevant; the first arm tells which, and the
    second says nothing."""
    random = np.random.default_rng(seed)
    rows = np.repeat(np.arange(queries), 5)
    gains = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], queries)
    values = np.column_stack(
        [gains + 0.6 * random.normal(size=len(rows)), random.random(len(rows))]
    )
    return values, gains, rows


def test_an_arm_that_tells_something_weighs_more_and_weights_are_log_odds():
    values, gains, rows = noisy()
    weights = np.ones(len(rows))
    found = fit_fusion(values, gains, rows, weights, 5)
    assert found == fit_fusion(values, gains, rows, weights, 5)
    assert found[0] > 2.0 and 0.0 <= found[1] < 0.5 * found[0]
    # Twice the values: half the weights say the same.
    half = fit_fusion(2.0 * values, gains, rows, weights, 5)
    np.testing.assert_allclose(np.array(half) * 2.0, found, rtol=0.01)


def test_nothing_is_learned_from_nothing():
    assert fit_fusion(np.zeros((0, 2)), np.zeros(0), np.zeros(0, np.intp), np.zeros(0), 5) == (1, 1)
    values, _, rows = noisy(3)
    nothing = fit_fusion(values, np.zeros(len(rows)), rows, np.ones(len(rows)), 5)
    assert len(nothing) == 2 and all(np.isfinite(nothing)) and min(nothing) >= 0.0
