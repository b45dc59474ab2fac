"""Tests, effects and corrections against scipy and statsmodels; refusals by name."""

import numpy as np
import pytest
import scipy.stats
from statsmodels.stats.multitest import multipletests

from analysis.outcomes import LATENCY
from analysis.paired_test import cohens_d, holm, paired_test, rank_biserial
from analysis.results import compute_results
from analysis.settings import ReportSettings
from arms.errors import LabelsError
from tests.analysis.synthetic import best_columns, decide, make_world, suite_decisions


def pair(kind, n=120, seed=0):
    rng = np.random.default_rng(seed)
    theirs = rng.random(n)
    if kind == "normal":
        return theirs + rng.normal(0.05, 0.2, n), theirs
    if kind == "skewed":
        return theirs + rng.exponential(0.2, n) - 0.1, theirs
    return theirs + np.round(rng.normal(0, 0.5, n)) / 2, theirs  # ties and many zeros


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["normal", "skewed", "tied"])
def test_equals_scipy(kind, seed):
    ours, theirs = pair(kind, seed=seed)
    found = paired_test(ours, theirs)
    normality = scipy.stats.normaltest(ours - theirs).pvalue
    assert found.normality_p == pytest.approx(normality)
    if normality >= 0.05:
        assert found.test == "paired t"
        expected = scipy.stats.ttest_rel(ours, theirs)
        assert found.p_value == pytest.approx(expected.pvalue)
        # t = d · √n
        assert found.effect * np.sqrt(len(ours)) == pytest.approx(expected.statistic)
    else:
        assert found.test == "Wilcoxon"
        assert found.p_value == pytest.approx(scipy.stats.wilcoxon(ours, theirs).pvalue)


def test_rank_biserial_follows_from_scipys_rank_sum():
    ours, theirs = pair("tied", seed=9)
    differences = (ours - theirs)[ours != theirs]
    positive = scipy.stats.wilcoxon(differences, alternative="greater").statistic
    total = len(differences) * (len(differences) + 1) / 2
    assert rank_biserial(ours - theirs) == pytest.approx((2 * positive - total) / total)
    assert rank_biserial(np.array([1.0, 2.0])) == 1.0
    assert rank_biserial(np.array([-1.0, -2.0, 0.0])) == -1.0
    assert cohens_d(np.array([1.0, 2.0, 3.0])) == pytest.approx(2.0)


def test_no_difference_and_a_constant_one():
    values = np.linspace(0, 1, 30)
    same = paired_test(values, values)
    assert (same.test, same.p_value, same.effect) == ("none", 1.0, 0.0)
    shifted = paired_test(values + 0.25, values)
    assert shifted.test == "Wilcoxon" and shifted.p_value < 1e-4 and shifted.effect == 1.0


def test_few_queries_are_not_tested_for_normality():
    found = paired_test(np.array([0.4, 0.6, 0.9]), np.array([0.5, 0.5, 0.5]))
    assert found.normality_p is None and found.test == "Wilcoxon"


def test_unpaired_or_missing_values_are_refused():
    with pytest.raises(LabelsError, match="the same queries on both sides, got 2 and 3"):
        paired_test(np.zeros(2), np.zeros(3))
    with pytest.raises(LabelsError, match="1 are missing on one side, 2 on the other"):
        paired_test(np.array([np.nan, 1, 1]), np.array([np.nan, np.nan, 1]))
    with pytest.raises(LabelsError, match="a result for each"):
        paired_test(np.zeros(0), np.zeros(0))


def test_holm_equals_statsmodels_and_the_hand_computed_case():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    rng = np.random.default_rng(1)
    for n in (1, 2, 17):
        p = rng.random(n) ** 3
        assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert holm([]) == []


def test_the_reports_tests_are_scipys_on_its_own_outcomes(tmp_path):
    labels = make_world(n=300).write(tmp_path)
    results = compute_results(
        labels, suite_decisions(labels, folds=0), ReportSettings(n_resamples=100)
    )
    found = results.test.significance
    scores = results.test.scores
    for metric in ("nDCG@5", LATENCY):
        family = [one for one in found.tests if one.metric == metric]
        # 4 arms and 4 baselines at 6 λ, router_lora at one
        assert len(family) == 8 * 6 + 1
        corrected = multipletests([one.result.p_value for one in family], method="holm")[1]
        assert [one.holm_p for one in family] == pytest.approx(corrected)
    one = next(t for t in found.tests if (t.policy, t.lam) == ("static:text_late", 0.3))
    ours = scores.get("router", 0.3).values("nDCG@5")
    theirs = scores.get("static:text_late", 0.3).values("nDCG@5")
    assert one.mean_difference == pytest.approx(ours.mean() - theirs.mean())
    assert one.result == paired_test(ours, theirs)


def test_an_arm_that_a_dataset_lacks_is_excluded_by_name(tmp_path):
    world = make_world(n=200)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    world.status[np.array(world.datasets) == "claims", 2] = "skipped"
    labels = world.write(tmp_path)
    decisions = decide(labels, "router", 0.0, best_columns(labels, 0.0))
    results = compute_results(labels, decisions, ReportSettings(n_resamples=100))
    found = results.test.significance
    assert "static:text_late" not in {one.policy for one in found.tests}
    assert "static:bm25" in {one.policy for one in found.tests}
    outcome = results.test.scores.get("static:text_late", 0.0)
    assert found.missing == {"static:text_late": int((~outcome.evaluated).sum())}
    assert found.missing["static:text_late"] > 0
    assert results.test.areas.left_out == ("static:text_late",)


def test_failed_queries_leave_both_sides(tmp_path):
    world = make_world(n=200)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    failed = np.flatnonzero(np.array(world.splits) == "test")[:4]
    world.status[failed, 0] = "timeout"
    labels = world.write(tmp_path)
    decisions = decide(labels, "router", 0.0, best_columns(labels, 0.0))
    results = compute_results(labels, decisions, ReportSettings(n_resamples=100))
    n_test = sum(split == "test" for split in world.splits)
    assert {one.result.n for one in results.test.significance.tests} == {n_test - 4}
    assert not results.test.significance.missing
