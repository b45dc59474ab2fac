"""What reports and comparisons say of a policy that merges."""

import numpy as np
import pytest

from analysis.bootstrap import Resamples
from analysis.calibration import calibration
from analysis.collapse import collapses
from analysis.compare import Side, compare_runs
from analysis.compare_text import write_comparison
from analysis.detail_tables import found_table
from analysis.figures import planned_figures
from analysis.headline import headline
from analysis.lost_queries import lost_queries
from analysis.markdown import write_markdown
from analysis.merging import CEILINGS, PASSES_ORACLE, merging_policies
from analysis.results import compute_results
from analysis.reward_map import MERGED, reward_map
from analysis.sections import Provenance, report_content
from analysis.settings import ReportSettings
from analysis.summary import MICRO
from analysis.write_report import write_report
from router.decisions import write_decisions
from tests.analysis.merging_suite import SETTINGS, suite_with
from tests.analysis.synthetic import (
    rewards,
    suite_decisions,
)


def test_merged_answers_are_told_as_merged(merging_labels, merging_results):
    outcome, oracle = (
        merging_results.test.scores.get(name, 0.3) for name in ("merging", "oracle(A)")
    )
    found = reward_map(outcome)
    assert found.rows == (*merging_labels.pipelines, MERGED)
    merged = int(outcome.merged.sum())
    assert found.counts.tolist() == [0, len(outcome.reward) - merged, 0, 0, merged]
    test = merging_labels.splits == "test"
    np.testing.assert_allclose(
        found.rewards[-1], rewards(merging_labels, 0.3)[test][outcome.merged].mean(axis=0)
    )
    lost = lost_queries(merging_labels, outcome, oracle)
    assert {one.chosen for one in lost} == {"merged: bm25, text_dense", "text_dense"}
    assert {one.merged for one in lost} == {("bm25", "text_dense"), ()}
    assert all(one.merged == () for one in lost if one.chosen == "text_dense")
    expected = {(0.3, "text_dense"): 0.5}
    point = calibration([outcome], expected, Resamples(len(outcome.reward), 50, 1), 0.95).points[0]
    assert point.observed.n == len(outcome.reward) - merged  # text_dense alone


def test_arms_that_were_merged_are_named_on_the_queries_lost(merging_labels):
    settings = ReportSettings(n_resamples=100, router="merging", lams=(0.3,))
    results = compute_results(merging_labels, suite_with(merging_labels), settings)
    table = found_table(results, None)
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    merged = {(one.dataset, one.query_id) for one in results.details.lost if one.merged}
    assert 0 < len(merged) < len(results.details.lost)
    for row in rows:
        by_router = row["arm"] == "text_dense" or (
            row["arm"] == "bm25" and (row["dataset"], row["query_id"]) in merged
        )
        assert ("router" in row["role"]) == by_router


def collapsed(results):
    return {one.policy for one in collapses(results.test.shares, results.labels.pipelines)}


def test_shares_count_the_arm_that_would_have_answered_and_collapse_is_never_said(
    merging_labels, merging_results
):
    one = next(
        one
        for one in merging_results.test.shares
        if (one.policy, one.lam, one.scope) == ("merging", 0.0, MICRO)
    )
    assert one.shares == (0.0, 1.0, 0.0, 0.0)
    assert one.merged == pytest.approx(
        merging_results.test.scores.get("merging", 0.0).merged.mean()
    )
    assert merging_policies(merging_results.test.shares) == ("merging",)
    assert "merging" not in collapsed(merging_results)
    alone = suite_with(merging_labels, alone=lambda n: n >= 0)
    unmerged = compute_results(merging_labels, alone, SETTINGS)
    assert merging_policies(unmerged.test.shares) == ()
    assert "merging" in collapsed(unmerged)


def test_the_report_says_who_merges_and_that_the_oracle_may_be_passed(
    merging_labels, merging_folder, tmp_path
):
    router = tmp_path / "router"
    router.mkdir()
    write_decisions(suite_with(merging_labels), router / "decisions.parquet")
    settings = ReportSettings(n_resamples=100, router="merging", lams=(0.3,))
    report = write_report(merging_folder, router, tmp_path / "report", settings)
    text = report.markdown.read_text()
    assert "own ranking of what these found: merging. The quality of that ranking counts" in text
    assert PASSES_ORACLE in text and CEILINGS in text
    assert "Their headroom is held against the ideal order" in text
    assert "| ideal order of its candidates |" in text
    assert "Policies that merge (merging) answer with their own ranking" in text
    assert "| of these merged |" in text
    assert "merged: bm25, text_dense" in (report.folder / "lost_queries.csv").read_text()
    assert "but a policy that merges what several arms found may pass; the thick grey" in text
    assert "The row 'merged' holds" in text and "merging has collapsed" not in text
    assert (report.folder / "routing_share.csv").read_text().splitlines()[0].endswith(",merged")


def test_a_report_without_merging_says_nothing_of_it(merging_labels):
    results = compute_results(
        merging_labels,
        suite_decisions(merging_labels, lams=(0.0,)),
        ReportSettings(n_resamples=100),
    )
    figures = {entry.name: entry for entry, _ in planned_figures(results)}
    content = report_content(results, figures, Provenance())
    text = write_markdown(content)
    assert "of these merged" not in text and "Policies that merge" not in text
    shares = next(table for table in content.tables if table.name == "routing_share")
    assert "merged" not in [column.key for column in shares.columns]


def test_a_router_ahead_of_the_oracle_everywhere_lost_nowhere(merging_labels):
    ahead = suite_with(merging_labels, alone=lambda n: n < 0)
    results = compute_results(merging_labels, ahead, SETTINGS)
    assert results.details.lost == ()
    figures = {entry.name: entry for entry, _ in planned_figures(results)}
    text = write_markdown(report_content(results, figures, Provenance()))
    assert "Nowhere: merging is level with or ahead of the oracle over A." in text


def test_runs_that_merge_are_compared(merging_labels):
    side = Side("a", merging_labels, suite_with(merging_labels))
    same = compare_runs(side, side)
    assert {one.verdict for one in same.changes} == {"the same"}
    better = Side(
        "b", merging_labels, suite_with(merging_labels, gain=0.3, alone=lambda n: n % 2 == 0)
    )
    compared = compare_runs(side, better)
    change = next(one for one in compared.changes if (one.policy, one.lam) == ("merging", 0.0))
    test = np.flatnonzero(merging_labels.splits == "test")
    merged = [
        rule(np.arange(len(merging_labels.query_ids)))[test]
        for rule in (lambda n: n % 4 != 0, lambda n: n % 2 != 0)
    ]
    assert change.other_arm == pytest.approx((merged[0] != merged[1]).mean())
    top = merging_labels.quality["nDCG@5"][test].max(axis=1)
    alone = merging_labels.quality["nDCG@5"][test, 1]
    a, b = (
        np.where(own, np.clip(top + gain, 0, 1), alone)
        for own, gain in zip(merged, (0.1, 0.3), strict=True)
    )
    assert change.quality.value == pytest.approx((b - a).mean())
    assert "merging" in write_comparison(compared)


def test_the_first_lines_name_policies_that_are_clearly_ahead(merging_labels):
    def said(gain):
        settings = ReportSettings(n_resamples=200, router="router", lams=(0.0, 0.3))
        results = compute_results(merging_labels, suite_with(merging_labels, gain=gain), settings)
        found = [one for one in headline(results) if one.startswith("Other policies clearly")]
        return found, results

    found, results = said(0.1)
    compared = {(one.policy, one.lam): one for one in results.test.comparisons}
    ahead = compared["merging", 0.0]
    assert ahead.reward_difference.high < 0.0
    assert f"at λ = 0 merging ({ahead.reward:.3f}, router less this −" in found[0]
    assert "At the best λ for each, " in found[0]
    worse, results = said(-0.9)
    assert not any("merging" in one for one in worse)
