"""What reports say of policies that fuse lists, and of the strongest simple baseline."""

import numpy as np
import pyarrow as pa
import pytest

from analysis.decided import join_decisions
from analysis.headline import headline
from analysis.markdown import markdown_table
from analysis.merging import merging_policies
from analysis.results import compute_results
from analysis.roles import role_of, title_of
from analysis.settings import ReportSettings
from analysis.summary_tables import means_table
from analysis.uncertainty_table import uncertainty_table
from tests.analysis.synthetic import decide, suite_decisions, with_answers, with_ceilings

LAM = 0.3


def fused_in(labels, policy, share=1.0, answered=True):
    """Fuses two arms at every query; as good as ``share`` of the best arm."""
    best = np.nanmax(labels.quality["nDCG@5"], axis=1)
    table = decide(labels, policy, LAM, np.ones(len(labels.query_ids), int), 1.0)
    plans = ["text_dense+bm25"] * len(labels.query_ids)
    own = {name: best * share if answered else best * np.nan for name in ("nDCG", "RR", "R")}
    table = with_answers(table, plans, **own)
    return with_ceilings(table, **own) if answered else table


@pytest.fixture
def decisions(merging_labels):
    parts = [
        suite_decisions(merging_labels, lams=(LAM,)),
        fused_in(merging_labels, "strongest_simple", 0.9),
        fused_in(merging_labels, "tuned_fusion"),
    ]
    return pa.concat_tables(parts, promote_options="default")


@pytest.fixture
def results(merging_labels, decisions):
    settings = ReportSettings(n_resamples=100, router="router", lams=(LAM,))
    return compute_results(merging_labels, decisions, settings)


def test_a_fused_plan_with_a_quality_of_its_own_is_scored_with_both_arms_latency(
    merging_labels, results
):
    outcome = results.test.scores.get("tuned_fusion", LAM)
    rows = outcome.evaluation.label_rows
    best = np.nanmax(merging_labels.quality["nDCG@5"], axis=1)[rows]
    np.testing.assert_allclose(outcome.values("nDCG@5"), best)
    arms = [outcome.evaluation.pipelines.index(arm) for arm in ("bm25", "text_dense")]
    taken = outcome.evaluation.latency_ms[:, arms].sum(axis=1)
    np.testing.assert_allclose(outcome.latency_ms, taken + outcome.overhead_ms)
    names = {outcome.evaluation.pipelines[code] for code in outcome.answering_arm.tolist()}
    assert names == {"text_dense"}  # named first: the one preferred
    assert outcome.merged.all()
    assert "tuned_fusion" in merging_policies(results.test.shares)


def test_a_fused_plan_without_one_is_left_out_by_name(merging_labels, decisions):
    more = pa.concat_tables(
        [decisions, fused_in(merging_labels, "multi_label", answered=False)],
        promote_options="default",
    )
    found = join_decisions(more, merging_labels)
    assert {"tuned_fusion", "strongest_simple"} < {one.policy for one in found.groups}
    assert "multi_label" not in {one.policy for one in found.groups}
    assert found.notes[0].startswith("multi_label is left out: it fuses arms")


def test_the_strongest_simple_one_is_a_baseline_in_every_table(results):
    assert role_of("strongest_simple") == "baseline" and role_of("tuned_fusion") == "routed"
    assert title_of("strongest_simple") == "strongest simple baseline"
    written = markdown_table(
        means_table(results, results.test.summaries, "main", "All", results.test)
    )
    for name in ("strongest simple baseline", "tuned fusion"):
        assert name in written
    closed = {one.policy for one in results.test.headrooms}
    assert {"strongest_simple", "tuned_fusion"} < closed


def test_leads_over_it_are_paired(results):
    scores = results.test.scores
    simple = scores.get("strongest_simple", LAM).reward
    leads = {one.policy: one.lead_over_simple for one in results.test.uncertainties}
    assert leads["strongest_simple"] is None
    for name in ("router", "tuned_fusion"):
        difference = scores.get(name, LAM).reward - simple
        assert leads[name].value == pytest.approx(difference.mean())
        assert leads[name].low <= leads[name].value <= leads[name].high
    assert leads["tuned_fusion"].above_zero
    table = uncertainty_table(results, results.test, "leads", "Leads")
    assert "over strongest simple" in [column.heading for column in table.columns]
    assert "Strongest simple: at each λ the best on validation" in table.note


def test_the_first_lines_say_how_the_router_stands_to_it(results):
    said = [one for one in headline(results) if "strongest simple baseline" in one]
    assert len(said) == 1
    assert said[0].startswith("Beside the strongest simple baseline it is, by reward, ")
    assert f"at λ = {LAM:g} (" in said[0]


def test_without_it_nothing_is_said(merging_labels):
    settings = ReportSettings(n_resamples=100, router="router", lams=(LAM,))
    results = compute_results(
        merging_labels, suite_decisions(merging_labels, lams=(LAM,)), settings
    )
    assert all(one.lead_over_simple is None for one in results.test.uncertainties)
    assert not [one for one in headline(results) if "strongest simple" in one]
    table = uncertainty_table(results, results.test, "leads", "Leads")
    assert "over strongest simple" not in [column.heading for column in table.columns]
