"""Known answers: headroom, claims, comparisons, summaries, shares."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from analysis.headroom import headroom_closed
from analysis.results import compute_results
from analysis.settings import ReportSettings
from analysis.summary import MACRO, MICRO, P95, P95_SAMPLES, REGRET_A
from oracle.labels import read_labels
from tests.analysis.synthetic import (
    World,
    best_columns,
    best_single_column,
    decide,
    make_world,
    rewards,
    suite_decisions,
)

SETTINGS = ReportSettings(n_resamples=200)


def decided_results(tmp_path, lams=(0.0, 0.3), **policies):
    """Results where each policy is a function (labels, lam) → columns; overhead 0."""
    labels = make_world(n=300).write(tmp_path)
    seen = labels.splits != "test"
    tables = []
    for lam in lams:
        best = np.full(300, best_single_column(labels, lam, seen))
        tables.append(decide(labels, "best_static", lam, best))
        for name, columns in policies.items():
            tables.append(decide(labels, name, lam, columns(labels, lam)))
    return labels, compute_results(labels, pa.concat_tables(tables), SETTINGS)


def test_headroom_closed_by_hand():
    assert headroom_closed(0.6, 0.5, 0.7) == pytest.approx(0.5)
    assert headroom_closed(0.4, 0.5, 0.7) == pytest.approx(-0.5)
    assert headroom_closed(0.6, 0.5, 0.5005) is None
    assert headroom_closed(0.6, 0.5, 0.4) is None
    assert headroom_closed(float("nan"), float("nan"), float("nan")) is None


def test_the_oracle_closes_all_headroom_and_the_best_static_arm_none(tmp_path):
    def single(labels, lam):
        return np.full(300, best_single_column(labels, lam, labels.splits != "test"))

    _, results = decided_results(tmp_path, router=best_columns, lazy=single)
    found = {
        (one.policy, one.lam): one.closed
        for one in results.test.headrooms
        if one.metric == "reward" and one.ceiling == "oracle(A)"
    }
    for lam in (0.0, 0.3):
        assert found["router", lam].value == pytest.approx(1.0)
        assert found["router", lam].low == pytest.approx(1.0)
        assert found["lazy", lam].value == pytest.approx(0.0)
        assert found["lazy", lam].high == pytest.approx(0.0)


def test_headroom_is_undefined_where_the_oracle_is_no_better(tmp_path):
    world = make_world(n=60)
    world.quality[:] = np.array([0.9, 0.2, 0.1, 0.1])  # bm25 is best and fastest everywhere
    world.latency_ms[:] = np.array([1.0, 5.0, 9.0, 9.0])
    labels = world.write(tmp_path)
    results = compute_results(labels, suite_decisions(labels, folds=0), SETTINGS)
    assert results.test.headrooms
    assert all(one.closed.value is None for one in results.test.headrooms)
    assert all(one.closed.low is None for one in results.test.headrooms)


def test_claims_name_a_lam_or_say_none(tmp_path):
    _, results = decided_results(tmp_path, router=best_columns)
    claims = {one.arm: one for one in results.test.claims if one.router == "router"}
    assert claims["text_rerank"].point is not None
    assert claims["text_rerank"].point.certain
    assert claims["text_rerank"].lams_dominating == (0.0, 0.3)
    # The oracle at λ = 0 is the more accurate of the two, so it is the one shown.
    assert claims["text_rerank"].point.lam == 0.0
    assert claims["text_rerank"].point.speed_up > 1.0
    # Nothing is faster than always running the fastest arm.
    assert claims["bm25"].point is None
    assert claims["bm25"].nearest is not None
    assert claims["bm25"].lams_dominating == ()


def test_claim_gains_are_paired_differences(tmp_path):
    labels, results = decided_results(tmp_path, lams=(0.3,), router=best_columns)
    point = next(one.point for one in results.test.claims if one.arm == "text_rerank")
    test = labels.splits == "test"
    columns = best_columns(labels, 0.3)
    rows = np.arange(300)
    gain = labels.quality["nDCG@5"][rows, columns] - labels.quality["nDCG@5"][:, 3]
    saved = labels.latency_ms[:, 3] - labels.latency_ms[rows, columns]
    assert point.quality_gain.value == pytest.approx(gain[test].mean())
    assert point.latency_gain_ms.value == pytest.approx(saved[test].mean())


def test_comparisons_are_over_common_queries(tmp_path):
    world = make_world(n=200)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    lacking = np.array(world.datasets) == "tables"
    world.status[lacking, 3] = "skipped"
    labels = world.write(tmp_path)
    table = pa.concat_tables(
        [
            decide(labels, "router", 0.0, np.zeros(200, int)),
            decide(labels, "best_static", 0.0, np.full(200, 3)),
        ]
    )
    results = compute_results(labels, table, SETTINGS)
    row = next(one for one in results.test.comparisons if one.policy == "best_static")
    test = labels.splits == "test"
    common = test & ~(labels.datasets == "tables")
    assert row.n == common.sum() < test.sum()
    quality = labels.quality["nDCG@5"]
    assert row.router_quality == pytest.approx(quality[common, 0].mean())
    difference = (quality[:, 0] - quality[:, 3])[common].mean()
    assert row.quality_difference.value == pytest.approx(difference)
    summary = next(
        one
        for one in results.test.summaries
        if one.policy == "static:text_rerank" and one.scope == MICRO
    )
    assert (summary.n, summary.n_queries) == (common.sum(), test.sum())


def test_micro_and_macro_means_by_hand(tmp_path):
    world = World(
        quality=np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.0]]),
        latency_ms=np.array([[10.0, 10.0], [20.0, 20.0], [60.0, 60.0]]),
        datasets=["a", "a", "b"],
        splits=["test"] * 3,
        pipelines=("bm25", "dense"),
        router_arms=("bm25", "dense"),
    )
    labels = world.write(tmp_path)
    table = pa.concat_tables(
        [decide(labels, name, 0.0, np.zeros(3, int)) for name in ("router", "best_static")]
    )
    results = compute_results(labels, table, SETTINGS)
    micro, macro = (
        next(o for o in results.test.summaries if o.policy == "router" and o.scope == scope)
        for scope in (MICRO, MACRO)
    )
    assert micro.means["nDCG@5"] == pytest.approx(0.5)
    assert micro.means["latency_ms"] == pytest.approx(30.0)
    assert micro.means[P95] == pytest.approx(56.0)  # 20 + 0.9 · 40, linear between ranks
    assert macro.means["nDCG@5"] == pytest.approx(0.5)
    assert macro.means["latency_ms"] == pytest.approx(37.5)
    assert macro.means[P95] == pytest.approx((19.5 + 60.0) / 2)
    assert micro.means[REGRET_A] == pytest.approx(0.0)


def test_regret_is_oracle_minus_policy(results):
    labels = results.labels
    test = labels.splits == "test"
    for lam in (0.0, 0.5):
        table = rewards(labels, lam)
        best = table[np.arange(len(table)), best_columns(labels, lam)]
        row = next(
            one
            for one in results.test.summaries
            if one.policy == "static:bm25" and one.lam == lam and one.scope == MICRO
        )
        assert row.means[REGRET_A] == pytest.approx((best - table[:, 0])[test].mean())


def test_p95_of_single_timings_sees_the_spread(results):
    # Each median m was timed as 0.8 m, m and 1.2 m.
    labels = results.labels
    own = labels.latency_ms[labels.splits == "test", 0]
    row = next(
        one
        for one in results.test.summaries
        if one.policy == "static:bm25" and one.lam == 0.0 and one.scope == MICRO
    )
    expected = np.percentile((own[:, None] * [0.8, 1.0, 1.2]).ravel(), 95)
    assert row.means[P95_SAMPLES] == pytest.approx(expected)
    assert row.means[P95_SAMPLES] > row.means[P95]


def test_shares_sum_to_one_and_count_answers(results):
    for one in results.test.shares:
        assert sum(one.shares) == pytest.approx(1.0)
    row = next(
        one
        for one in results.test.shares
        if (one.policy, one.lam, one.scope) == ("router", 0.0, MICRO)
    )
    outcome = results.test.scores.get("router", 0.0)
    assert row.shares[0] == pytest.approx((outcome.answering_arm == 0).mean())


def test_folds_cover_every_query_once(results):
    assert results.folds is not None
    assert len(results.folds.scores.evaluation) == len(results.labels.query_ids)
    assert results.folds.scores.get("router", 0.0) is not None
    assert results.folds.scores.get("router_lora", 0.0) is None


def test_a_best_static_missing_from_decisions_is_picked_from_the_labels(suite):
    labels = read_labels(suite[0])
    table = decide(labels, "router", 0.0, np.zeros(len(labels.query_ids), int))
    results = compute_results(labels, table, SETTINGS)
    expected = best_single_column(labels, 0.0, labels.splits != "test")
    assert set(results.test.scores.get("best_static", 0.0).answering_arm) == {expected}
    assert results.notes[0].startswith("The decisions hold no best static arm")


def test_lams_that_were_not_decided_are_not_shown(tmp_path):
    _, results = decided_results(tmp_path, lams=(0.3,), router=best_columns)
    assert results.shown_lams == (0.3,)


def test_an_arm_that_failed_on_every_test_query_is_left_out_by_name(tmp_path):
    labels = make_world(n=200).write(tmp_path)
    late = labels.pipelines.index("text_late")
    assert "text_late" not in labels.router_arms
    status = labels.status.copy()
    status[labels.splits == "test", late] = "error"
    broken = replace(labels, status=status)
    tables = [decide(broken, "router", 0.0, np.zeros(200, dtype=int))]
    results = compute_results(broken, pa.concat_tables(tables), SETTINGS)
    assert "static:text_late" not in results.test.scores.policies
    assert len(results.test.scores.evaluation) == (labels.splits == "test").sum()
    assert any(note.startswith("text_late is left out: it failed on all") for note in results.notes)
    # One answer is enough to stay: then the failures take queries with them, as for every arm.
    status[np.flatnonzero(labels.splits == "test")[0], late] = "ok"
    kept = compute_results(replace(labels, status=status), pa.concat_tables(tables), SETTINGS)
    assert "static:text_late" in kept.test.scores.policies
    assert len(kept.test.scores.evaluation) == 1


def with_document_folds(labels, decisions):
    """Only the router and the best static arm, decided on three document folds."""
    folds = np.array([f"doc{row % 3}" for row in range(len(labels.query_ids))], dtype=object)
    choices = labels.columns_of(labels.router_arms)
    parts = [
        decide(labels, policy, lam, np.full(len(folds), choices[column]), overhead, folds)
        for lam in (0.0, 0.1)
        for policy, column, overhead in (("router", 1, 1.5), ("best_static", 0, 0.0))
    ]
    return pa.concat_tables([decisions, *parts])


def test_document_folds_are_an_evaluation_of_their_own(tmp_path):
    labels = make_world(n=300).write(tmp_path)
    decisions = with_document_folds(labels, suite_decisions(labels))
    plain = compute_results(labels, suite_decisions(labels), SETTINGS)
    results = compute_results(labels, decisions, SETTINGS)
    assert plain.document_folds is None
    assert results.folds.summaries == plain.folds.summaries
    found = {
        (one.policy, one.lam): one for one in results.document_folds.summaries
        if one.scope == MICRO and one.policy in ("router", "best_static")
    }  # fmt: skip
    assert set(found) == {(name, lam) for name in ("router", "best_static") for lam in (0.0, 0.1)}
    dense = labels.quality["nDCG@5"][:, labels.pipelines.index("text_dense")]
    assert found["router", 0.0].means["nDCG@5"] == pytest.approx(dense.mean())
    assert found["router", 0.0].n == len(labels.query_ids)
