"""Policies that answer with their own ranking: quality, latency, words, and the oracle passed."""

import numpy as np
import pytest

import analysis.decision_codes
from analysis.decided import join_decisions
from analysis.decision_codes import read_decision_batches
from analysis.headroom import headroom_closed
from analysis.outcomes import decided_alike
from analysis.plans import parse_plan
from analysis.results import compute_results
from analysis.samples import read_latency_samples
from analysis.summary import MICRO, REGRET_A
from arms.errors import RouterError
from router.decisions import write_decisions
from tests.analysis.merging_suite import SETTINGS, merging_in, suite_with
from tests.analysis.synthetic import (
    best_single_column,
    decide,
    with_answers,
)
from tests.analysis.test_outcomes import outcome_of, small_world


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
    merging_labels, tmp_path, monkeypatch
):
    table = suite_with(merging_labels)
    shuffled = table.take(np.random.default_rng(3).permutation(len(table)))
    write_decisions(shuffled, tmp_path / "decisions.parquet")
    monkeypatch.setattr(analysis.decision_codes, "_BATCH_ROWS", 97)
    read = join_decisions(read_decision_batches(tmp_path / "decisions.parquet"), merging_labels)
    groups = {(one.policy, one.lam, one.evaluation): one for one in read.groups}
    assert {key[0] for key, one in groups.items() if one.answer_quality} == {"merging"}
    group, plain = groups["merging", 0.3, "cv"], merging_in(merging_labels, 0.3)
    place = np.argsort(group.label_rows)  # one decision for each row of the merging_labels
    for measure in merging_labels.quality:
        expected = plain[f"answer:{measure}"].to_numpy()
        np.testing.assert_array_equal(group.answer_quality[measure][place], expected)
        assert 0 < np.isnan(expected).sum() < len(expected)


def test_the_oracle_is_passed_and_nothing_is_cut_off(merging_labels, merging_results):
    outcome, oracle = (
        merging_results.test.scores.get(name, 0.0) for name in ("merging", "oracle(A)")
    )
    test = merging_labels.splits == "test"
    best = merging_labels.columns_of(merging_labels.router_arms)
    quality = merging_labels.quality["nDCG@5"][test]
    ours = np.where(outcome.merged, np.clip(quality.max(axis=1) + 0.1, 0, 1), quality[:, 1])
    np.testing.assert_allclose(outcome.reward, ours)
    static = quality[:, best_single_column(merging_labels, 0.0, ~test)].mean()
    top = quality[:, best].max(axis=1).mean()
    expected = (ours.mean() - static) / (top - static)
    assert expected > 1.0 and oracle.reward.mean() == pytest.approx(top)
    closed = next(
        one.closed
        for one in merging_results.test.headrooms
        if (one.policy, one.lam, one.metric, one.ceiling) == ("merging", 0.0, "reward", "oracle(A)")
    )
    assert closed.value == pytest.approx(expected) and closed.low < expected < closed.high
    summary = next(
        one
        for one in merging_results.test.summaries
        if (one.policy, one.lam, one.scope) == ("merging", 0.0, MICRO)
    )
    assert summary.means[REGRET_A] == pytest.approx(top - ours.mean()) and top < ours.mean()
    regrets = [
        one.estimate.value
        for one in merging_results.details.group_regret
        if (one.policy, one.lam) == ("merging", 0.0)
    ]
    assert min(regrets) < 0.0


def test_a_mean_over_the_queries_that_happen_to_have_a_measure_is_no_mean(merging_labels):
    untold = suite_with(merging_labels).drop_columns(["answer:R@5"])
    results = compute_results(merging_labels, untold, SETTINGS)
    summaries = {
        (one.policy, one.scope): one.means for one in results.test.summaries if one.lam == 0.0
    }
    for scope in ("micro", "macro"):
        assert "R@5" not in summaries["merging", scope] and "RR@5" in summaries["merging", scope]
        assert "R@5" in summaries["router", scope]
    closed = {
        one.policy: one.closed.value
        for one in results.test.headrooms
        if (one.lam, one.metric, one.ceiling) == (0.0, "R@5", "oracle(A)")
    }
    assert closed["merging"] is None and closed["router"] is not None
    assert headroom_closed(float("nan"), 0.5, 0.7) is None
