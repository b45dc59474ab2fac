"""Policies that answer with their own ranking: quality, latency, words, and the oracle passed."""

import numpy as np
import pyarrow as pa
import pytest

import analysis.decision_codes
from analysis.bootstrap import Resamples
from analysis.calibration import calibration
from analysis.collapse import collapses
from analysis.compare import Side, compare_runs
from analysis.compare_text import write_comparison
from analysis.decided import join_decisions
from analysis.decision_codes import read_decision_batches
from analysis.detail_tables import found_table
from analysis.figures import planned_figures
from analysis.headroom import headroom_closed
from analysis.losses import lost_queries
from analysis.markdown import write_markdown
from analysis.merging import PASSES_ORACLE, merging_policies
from analysis.outcomes import decided_alike
from analysis.plans import parse_plan
from analysis.report import write_report
from analysis.results import compute_results
from analysis.reward_map import MERGED, reward_map
from analysis.samples import read_latency_samples
from analysis.sections import Provenance, report_content
from analysis.settings import ReportSettings
from analysis.summary import MICRO, REGRET_A
from arms.errors import RouterError
from router.decisions import write_decisions
from tests.analysis.synthetic import (
    best_single_column,
    decide,
    make_world,
    rewards,
    suite_decisions,
    with_answers,
)
from tests.analysis.test_outcomes import outcome_of, small_world

SETTINGS = ReportSettings(n_resamples=200, router="merging", lams=(0.0, 0.3))
N = 240


def merging_in(labels, lam, gain=0.1, alone=lambda n: n % 4 == 0, **options):
    """Merges bm25 and text_dense but where one answers ``alone``; better than the best by ``gain``.

    Of merged arms text_dense would have answered alone; alone answers text_dense.
    """
    n = len(labels.query_ids)
    single = alone(np.arange(n))
    best = np.nanmax(labels.quality["nDCG@5"], axis=1)
    table = decide(labels, "merging", lam, np.ones(n, int), 1.0, **options)
    plans = np.where(single, "text_dense", "bm25&text_dense").tolist()
    own = {
        name: np.where(single, np.nan, np.clip(share * best + gain, 0, 1))
        for name, share in (("nDCG", 1.0), ("RR", 0.9), ("R", 0.8))
    }
    return with_answers(table, plans, **own)


def suite_with(labels, **options):
    """Router and baselines at two λ, and the policy that merges, on the test split and on folds."""
    lams = (0.0, 0.3)
    folds = np.array([f"cv{row % 5}" for row in range(len(labels.query_ids))], dtype=object)
    tables = [suite_decisions(labels, lams=lams)]
    for lam in lams:
        tables += [merging_in(labels, lam, **options)]
        tables += [merging_in(labels, lam, splits=folds, **options)]
    return pa.concat_tables(tables, promote_options="default")


@pytest.fixture(scope="module")
def labels_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("merging") / "labels"
    make_world(n=N, test_share=0.4).write(folder)
    return folder


@pytest.fixture(scope="module")
def labels(labels_folder):
    from oracle.labels import read_labels

    return read_labels(labels_folder)


@pytest.fixture(scope="module")
def results(labels):
    return compute_results(labels, suite_with(labels), SETTINGS)


def test_a_merged_plan_is_read_back_and_an_arm_with_the_mark_is_one_arm():
    plan = parse_plan("bm25&late&dense", ("bm25", "dense", "late"))
    assert (plan.arms, plan.combine, plan.answering_arm) == (
        ("bm25", "late", "dense"),
        "merge",
        "dense",
    )
    assert str(plan) == "bm25&late&dense"
    assert parse_plan("q&a", ("q", "a", "q&a")).combine == "single"
    with pytest.raises(RouterError, match="the plan 'bm25&mm_late', labels have the arms"):
        parse_plan("bm25&mm_late", ("bm25", "dense"))


def test_the_policys_own_ranking_counts_and_every_arm_run(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]), overhead_ms=4.0)
    table = with_answers(
        table, ["bm25&dense", "bm25", "bm25"], nDCG=[0.95, None, None], RR=[0.5, None, None]
    )
    samples = read_latency_samples(tmp_path, labels)
    outcome = outcome_of(labels, table, samples_ms=samples)
    assert outcome.merged.tolist() == [True, False]
    assert outcome.answered_by().tolist() == ["merged: bm25, dense", "bm25"]
    np.testing.assert_allclose(outcome.values("nDCG@5"), [0.95, 0.6])
    np.testing.assert_allclose(outcome.values("RR@5"), [0.5, 0.9 * 0.6])
    np.testing.assert_allclose(outcome.values("R@5"), [np.nan, 0.8 * 0.6])  # not told
    np.testing.assert_allclose(outcome.latency_ms, [10 + 30 + 4, 24])
    # 0.5·0.95 + 0.5·(1 − 44/40) and 0.5·0.6 + 0.5·(1 − 24/80)
    np.testing.assert_allclose(outcome.reward, [0.425, 0.65])
    timed = np.array([[40.0], [20.0]]) * [0.8, 1.0, 1.2] + 4.0  # as each median was timed
    np.testing.assert_allclose(outcome.latency_samples_ms(), timed.ravel())
    cascade = outcome_of(
        labels,
        with_answers(
            table.drop_columns(["answer:nDCG@5", "answer:RR@5"]), ["bm25>dense", "bm25", "bm25"]
        ),
    )
    np.testing.assert_allclose(cascade.latency_ms, outcome.latency_ms)
    np.testing.assert_allclose(cascade.values("nDCG@5"), [0.8, 0.6])
    assert not decided_alike(cascade, outcome) and decided_alike(outcome, outcome)
    assert np.array_equal(cascade.answering_arm, outcome.answering_arm)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({}, r"router merges arms for 1 queries without telling the nDCG@5 .*'answer:nDCG@5'"),
        ({"RR": [0.5, None, None]}, "without telling the nDCG@5"),
        ({"nDCG": [None, None, None]}, "without telling the nDCG@5 .* rerun l2r train"),
        ({"nDCG": [1.5, None, None]}, r"1 answers of its own whose nDCG@5 lies outside \[0, 1\]"),
        ({"nDCG": [-0.1, None, None]}, "for example -0.1"),
        ({"nDCG": [float("inf"), None, None]}, "outside"),
        ({"nDCG": [0.5, None, None], "RR": [2.0, None, None]}, "whose RR@5 lies outside"),
    ],
)
def test_answers_that_are_missing_or_impossible_are_refused(tmp_path, told, message):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]))
    table = with_answers(table, ["bm25&dense", "bm25", "bm25"], **told)
    with pytest.raises(RouterError, match=message):
        join_decisions(table, labels)


def test_a_sum_of_gains_a_little_above_1_is_1(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]))
    table = with_answers(
        table, ["bm25&dense", "bm25", "bm25"], nDCG=[1.0000000000000002, None, None]
    )
    assert outcome_of(labels, table).values("nDCG@5")[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("told", "counted"), [(None, 0.0), (0.7, 0.7)])
def test_where_an_arm_failed_a_missing_answer_counts_as_0_if_at_all(tmp_path, told, counted):
    status = np.array([["ok", "error", "ok"], ["ok"] * 3, ["ok"] * 3], dtype=object)
    labels = small_world(status=status).write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]))
    table = with_answers(table, ["bm25&dense", "bm25&dense", "bm25"], nDCG=[told, 0.9, None])
    kept = outcome_of(labels, table)
    np.testing.assert_allclose(kept.values("nDCG@5"), [0.9])
    worst = outcome_of(labels, table, failures="worst")
    np.testing.assert_allclose(worst.values("nDCG@5"), [counted, 0.9])
    np.testing.assert_allclose(worst.latency_ms, [10 + 60, 20 + 60])


def test_answers_find_their_queries_whatever_the_order_and_the_batches(
    labels, tmp_path, monkeypatch
):
    table = suite_with(labels)
    shuffled = table.take(np.random.default_rng(3).permutation(len(table)))
    write_decisions(shuffled, tmp_path / "decisions.parquet")
    monkeypatch.setattr(analysis.decision_codes, "_BATCH_ROWS", 97)
    read = join_decisions(read_decision_batches(tmp_path / "decisions.parquet"), labels)
    groups = {(one.policy, one.lam, one.evaluation): one for one in read.groups}
    assert {key[0] for key, one in groups.items() if one.answer_quality} == {"merging"}
    group, plain = groups["merging", 0.3, "cv"], merging_in(labels, 0.3)
    place = np.argsort(group.label_rows)  # one decision for each row of the labels
    for measure in labels.quality:
        expected = plain[f"answer:{measure}"].to_numpy()
        np.testing.assert_array_equal(group.answer_quality[measure][place], expected)
        assert 0 < np.isnan(expected).sum() < N


def test_the_oracle_is_passed_and_nothing_is_cut_off(labels, results):
    outcome, oracle = (results.test.scores.get(name, 0.0) for name in ("merging", "oracle(A)"))
    test = labels.splits == "test"
    best = labels.columns_of(labels.router_arms)
    quality = labels.quality["nDCG@5"][test]
    ours = np.where(outcome.merged, np.clip(quality.max(axis=1) + 0.1, 0, 1), quality[:, 1])
    np.testing.assert_allclose(outcome.reward, ours)
    static = quality[:, best_single_column(labels, 0.0, ~test)].mean()
    top = quality[:, best].max(axis=1).mean()
    expected = (ours.mean() - static) / (top - static)
    assert expected > 1.0 and oracle.reward.mean() == pytest.approx(top)
    closed = next(
        one.closed
        for one in results.test.headrooms
        if (one.policy, one.lam, one.metric, one.oracle) == ("merging", 0.0, "reward", "oracle(A)")
    )
    assert closed.value == pytest.approx(expected) and closed.low < expected < closed.high
    summary = next(
        one
        for one in results.test.summaries
        if (one.policy, one.lam, one.scope) == ("merging", 0.0, MICRO)
    )
    assert summary.means[REGRET_A] == pytest.approx(top - ours.mean()) and top < ours.mean()
    regrets = [
        one.estimate.value
        for one in results.details.group_regret
        if (one.policy, one.lam) == ("merging", 0.0)
    ]
    assert min(regrets) < 0.0


def test_a_mean_over_the_queries_that_happen_to_have_a_measure_is_no_mean(labels):
    untold = suite_with(labels).drop_columns(["answer:R@5"])
    results = compute_results(labels, untold, SETTINGS)
    summaries = {
        (one.policy, one.scope): one.means for one in results.test.summaries if one.lam == 0.0
    }
    for scope in ("micro", "macro"):
        assert "R@5" not in summaries["merging", scope] and "RR@5" in summaries["merging", scope]
        assert "R@5" in summaries["router", scope]
    closed = {
        one.policy: one.closed.value
        for one in results.test.headrooms
        if (one.lam, one.metric, one.oracle) == (0.0, "R@5", "oracle(A)")
    }
    assert closed["merging"] is None and closed["router"] is not None
    assert headroom_closed(float("nan"), 0.5, 0.7) is None


def test_merged_answers_are_told_as_merged(labels, results):
    outcome, oracle = (results.test.scores.get(name, 0.3) for name in ("merging", "oracle(A)"))
    found = reward_map(outcome)
    assert found.rows == (*labels.pipelines, MERGED)
    merged = int(outcome.merged.sum())
    assert found.counts.tolist() == [0, len(outcome.reward) - merged, 0, 0, merged]
    test = labels.splits == "test"
    np.testing.assert_allclose(
        found.rewards[-1], rewards(labels, 0.3)[test][outcome.merged].mean(axis=0)
    )
    lost = lost_queries(labels, outcome, oracle)
    assert {one.chosen for one in lost} == {"merged: bm25, text_dense", "text_dense"}
    assert {one.merged for one in lost} == {("bm25", "text_dense"), ()}
    assert all(one.merged == () for one in lost if one.chosen == "text_dense")
    columns = [column.key for column in found_table(results, None).columns]
    rows = [dict(zip(columns, row, strict=True)) for row in found_table(results, None).rows]
    by_router = {row["arm"] for row in rows if "router" in row["role"]}
    assert by_router <= {"bm25", "text_dense"} and by_router
    expected = {(0.3, "text_dense"): 0.5}
    point = calibration([outcome], expected, Resamples(len(outcome.reward), 50, 1), 0.95).points[0]
    assert point.observed.n == len(outcome.reward) - merged  # text_dense alone


def collapsed(results):
    return {one.policy for one in collapses(results.test.shares, results.labels.pipelines)}


def test_shares_count_the_arm_that_would_have_answered_and_collapse_is_never_said(labels, results):
    one = next(
        one
        for one in results.test.shares
        if (one.policy, one.lam, one.scope) == ("merging", 0.0, MICRO)
    )
    assert one.shares == (0.0, 1.0, 0.0, 0.0)
    assert one.merged == pytest.approx(results.test.scores.get("merging", 0.0).merged.mean())
    assert merging_policies(results.test.shares) == ("merging",)
    assert "merging" not in collapsed(results)
    alone = suite_with(labels, alone=lambda n: n >= 0)
    unmerged = compute_results(labels, alone, SETTINGS)
    assert merging_policies(unmerged.test.shares) == ()
    assert "merging" in collapsed(unmerged)


def test_the_report_says_who_merges_and_that_the_oracle_may_be_passed(
    labels, labels_folder, tmp_path
):
    router = tmp_path / "router"
    router.mkdir()
    write_decisions(suite_with(labels), router / "decisions.parquet")
    settings = ReportSettings(n_resamples=100, router="merging", lams=(0.3,))
    report = write_report(labels_folder, router, tmp_path / "report", settings)
    text = report.markdown.read_text()
    assert "own ranking of what these found: merging. The quality of that ranking counts" in text
    assert PASSES_ORACLE in text and "Headroom closed can then exceed 100 %" in text
    assert "Policies that merge (merging) answer with their own ranking" in text
    assert "| of these merged |" in text
    assert "merged: bm25, text_dense" in (report.folder / "lost_queries.csv").read_text()
    assert "but a policy that merges what several arms found may pass; the thick grey" in text
    assert "The row 'merged' holds" in text and "merging has collapsed" not in text
    assert (report.folder / "routing_share.csv").read_text().splitlines()[0].endswith(",merged")


def test_a_report_without_merging_says_nothing_of_it(labels):
    results = compute_results(
        labels, suite_decisions(labels, lams=(0.0,)), ReportSettings(n_resamples=100)
    )
    figures = {entry.name: entry for entry, _ in planned_figures(results)}
    content = report_content(results, figures, Provenance())
    text = write_markdown(content)
    assert "of these merged" not in text and "Policies that merge" not in text
    shares = next(table for table in content.tables if table.name == "routing_share")
    assert "merged" not in [column.key for column in shares.columns]


def test_a_router_ahead_of_the_oracle_everywhere_lost_nowhere(labels):
    ahead = suite_with(labels, alone=lambda n: n < 0)
    results = compute_results(labels, ahead, SETTINGS)
    assert results.details.lost == ()
    figures = {entry.name: entry for entry, _ in planned_figures(results)}
    text = write_markdown(report_content(results, figures, Provenance()))
    assert "Nowhere: merging is level with or ahead of the oracle over A." in text


def test_runs_that_merge_are_compared(labels):
    side = Side("a", labels, suite_with(labels))
    same = compare_runs(side, side)
    assert {one.verdict for one in same.changes} == {"the same"}
    better = Side("b", labels, suite_with(labels, gain=0.3, alone=lambda n: n % 2 == 0))
    compared = compare_runs(side, better)
    change = next(one for one in compared.changes if (one.policy, one.lam) == ("merging", 0.0))
    test = np.flatnonzero(labels.splits == "test")
    merged = [rule(np.arange(N))[test] for rule in (lambda n: n % 4 != 0, lambda n: n % 2 != 0)]
    assert change.other_arm == pytest.approx((merged[0] != merged[1]).mean())
    top = labels.quality["nDCG@5"][test].max(axis=1)
    alone = labels.quality["nDCG@5"][test, 1]
    a, b = (
        np.where(own, np.clip(top + gain, 0, 1), alone)
        for own, gain in zip(merged, (0.1, 0.3), strict=True)
    )
    assert change.quality.value == pytest.approx((b - a).mean())
    assert "merging" in write_comparison(compared)
