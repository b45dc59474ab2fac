"""Analysis' statistics against scipy and plain numpy on the same numbers."""

import numpy as np
import pytest
import scipy.stats

from analysis.bootstrap import Resamples, estimate_means
from analysis.headroom import SMALLEST_HEADROOM, headroom_closed
from analysis.results import compute_results
from analysis.settings import ReportSettings
from tests.analysis.synthetic import make_world, suite_decisions


def paired_values(n=80):
    rng = np.random.default_rng(11)
    one = rng.beta(2, 2, n)
    other = np.clip(one + rng.normal(0.05, 0.2, n), 0, 1)
    return one, other


def scipy_interval(data, statistic, seed=5):
    return scipy.stats.bootstrap(
        data,
        statistic,
        paired=True,
        vectorized=False,
        method="percentile",
        n_resamples=4000,
        rng=np.random.default_rng(seed),
    ).confidence_interval


def test_mean_and_paired_difference_agree_with_scipy():
    one, other = paired_values()
    resamples = Resamples(len(one), 4000, seed=1)
    columns = np.stack([one, other - one], axis=1)
    mean, difference = estimate_means(columns, resamples, 0.95)
    for estimate, data, statistic in (
        (mean, (one,), np.mean),
        (difference, (one, other), lambda a, b: np.mean(b - a)),
    ):
        theirs = scipy_interval(data, statistic)
        width = theirs.high - theirs.low
        assert estimate.low == pytest.approx(theirs.low, abs=0.06 * width)
        assert estimate.high == pytest.approx(theirs.high, abs=0.06 * width)


def test_pairing_is_what_narrows_the_interval():
    one, other = paired_values()
    (paired,) = estimate_means((other - one)[:, None], Resamples(80, 2000, 1), 0.95)
    unpaired = scipy.stats.bootstrap(
        (one, other),
        lambda a, b: np.mean(b) - np.mean(a),
        vectorized=False,
        method="percentile",
        n_resamples=2000,
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert paired.high - paired.low < 0.8 * (unpaired.high - unpaired.low)


def test_exact_distribution_of_three_queries():
    # 27 equally likely resamples of (0, 1, 5): compare every quantile step by its probability.
    draws = np.array(np.meshgrid(*[[0.0, 1.0, 5.0]] * 3)).reshape(3, -1).mean(axis=0)
    replicates = Resamples(3, 60_000, seed=2).means(np.array([[0.0], [1.0], [5.0]]))[:, 0]
    for value in np.unique(np.round(draws, 9)):
        expected = np.isclose(draws, value).mean()
        assert np.isclose(replicates, value).mean() == pytest.approx(expected, abs=0.01)


def test_headroom_interval_agrees_with_scipy(tmp_path):
    labels = make_world(n=300).write(tmp_path)
    decisions = suite_decisions(labels, lams=(0.1,), folds=0)
    results = compute_results(labels, decisions, ReportSettings(n_resamples=4000))
    scores = results.test.scores
    data = tuple(scores.get(name, 0.1).reward for name in ("router", "best_static", "oracle(A)"))

    def ratio(policy, best, top):
        return headroom_closed(policy.mean(), best.mean(), top.mean()) or np.nan

    assert data[2].mean() - data[1].mean() > 10 * SMALLEST_HEADROOM
    theirs = scipy_interval(data, ratio)
    ours = next(
        one.closed
        for one in results.test.headrooms
        if (one.policy, one.metric, one.ceiling) == ("router", "reward", "oracle(A)")
    )
    width = theirs.high - theirs.low
    assert ours.value == pytest.approx(ratio(*data))
    assert ours.low == pytest.approx(theirs.low, abs=0.08 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.08 * width)


def test_coverage_is_near_the_confidence():
    rng = np.random.default_rng(3)
    covered = 0
    for trial in range(200):
        (estimate,) = estimate_means(rng.normal(size=(60, 1)), Resamples(60, 400, trial), 0.9)
        covered += estimate.low <= 0.0 <= estimate.high
    assert 0.83 <= covered / 200 <= 0.96
