"""Joining decisions with labels: reward with overhead, absence, failures, refusals."""

import numpy as np
import pyarrow as pa
import pytest

from analysis.decided import join_decisions
from analysis.evaluation import evaluate_queries
from analysis.outcomes import static_outcomes
from analysis.results import compute_results
from analysis.samples import read_latency_samples
from analysis.settings import ReportSettings
from arms.errors import LabelsError, RouterError, SettingsError
from tests.analysis.synthetic import World, decide, make_world, suite_decisions

ARMS = ("bm25", "dense", "late")


def small_world(**changes):
    """Two test queries and one train query; A = {bm25, dense}, P adds late."""
    given = {
        "quality": np.array([[0.2, 0.8, 0.9], [0.6, 0.5, 0.4], [0.1, 0.1, 0.1]]),
        "latency_ms": np.array([[10.0, 30.0, 200.0], [20.0, 60.0, 100.0], [1.0, 1.0, 1.0]]),
        "datasets": ["a", "a", "a"],
        "splits": ["test", "test", "train"],
        "pipelines": ARMS,
        "router_arms": ("bm25", "dense"),
    }
    return World(**{**given, **changes})


def outcome_of(labels, table, policy="router", lam=0.5, **options):
    rows = np.flatnonzero(labels.splits == "test")
    evaluation = evaluate_queries(labels, rows, "test", labels.router_arms, **options)
    scored = join_decisions(table, labels).outcomes(evaluation, (lam,))
    return next(one for one in scored if one.policy == policy and one.lam == lam)


def test_reward_charges_overhead_against_the_declared_sum(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]), overhead_ms=4.0)
    outcome = outcome_of(labels, table)
    np.testing.assert_allclose(outcome.latency_ms, [34.0, 24.0])
    # 0.5·0.8 + 0.5·(1 − 34/40) and 0.5·0.6 + 0.5·(1 − 24/80)
    np.testing.assert_allclose(outcome.reward, [0.475, 0.65])
    np.testing.assert_allclose(outcome.values("nDCG@5"), [0.8, 0.6])


def with_reused(table, milliseconds):
    return table.append_column("reused_encode_ms", pa.array(milliseconds, pa.float64()))


def test_a_query_vector_that_is_reused_counts_once(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]), overhead_ms=4.0)
    samples = read_latency_samples(tmp_path, labels)
    outcome = outcome_of(labels, with_reused(table, [25.0, 0.0, 0.0]), samples_ms=samples)
    np.testing.assert_allclose(outcome.latency_ms, [9.0, 24.0])  # 30 + 4 − 25
    np.testing.assert_allclose(outcome.overhead_ms, [4.0, 4.0])
    np.testing.assert_allclose(outcome.values("reused_encode_ms"), [25.0, 0.0])
    # 0.5·0.8 + 0.5·(1 − 9/40) and 0.5·0.6 + 0.5·(1 − 24/80)
    np.testing.assert_allclose(outcome.reward, [0.7875, 0.65])
    timed = outcome.latency_samples_ms()  # 24 ms of 30 are less than what is reused: not below 0
    np.testing.assert_allclose(timed, [4.0, 9.0, 15.0, 20.0, 24.0, 28.0])


def test_reused_encoding_is_at_most_what_the_arms_took_and_never_negative(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]), overhead_ms=4.0)
    outcome = outcome_of(labels, with_reused(table, [99.0, 0.0, 0.0]))
    np.testing.assert_allclose(outcome.latency_ms, [4.0, 24.0])
    np.testing.assert_allclose(outcome.values("reused_encode_ms"), [30.0, 0.0])
    refuse(labels, with_reused(table, [-1.0, 0, 0]), RouterError, "reused_encode_ms is negative")


def test_decisions_without_the_column_count_everything(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]), overhead_ms=4.0)
    kept, mixed = outcome_of(labels, table), outcome_of(labels, with_reused(table, [0.0] * 3))
    np.testing.assert_array_equal(kept.reward, mixed.reward)
    assert kept.values("reused_encode_ms").tolist() == [0.0, 0.0]


def test_an_arm_outside_the_declared_set_has_the_same_denominator(tmp_path):
    labels = small_world().write(tmp_path)
    rows = np.array([0, 1])
    evaluation = evaluate_queries(labels, rows, "test", labels.router_arms)
    late = next(o for o in static_outcomes(evaluation, (1.0,)) if o.policy == "static:late")
    np.testing.assert_allclose(late.reward, [1 - 200 / 40, 1 - 100 / 80])
    wider = evaluate_queries(labels, rows, "test", ARMS)
    late = next(o for o in static_outcomes(wider, (1.0,)) if o.policy == "static:late")
    np.testing.assert_allclose(late.reward, [1 - 200 / 240, 1 - 100 / 180])


def test_a_cascade_pays_for_its_probe_and_answers_with_its_last_arm(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]))
    plans = ["bm25>dense", "bm25", "bm25"]
    table = table.set_column(table.column_names.index("plan"), "plan", pa.array(plans))
    outcome = outcome_of(labels, table)
    np.testing.assert_allclose(outcome.latency_ms, [40.0, 20.0])
    np.testing.assert_allclose(outcome.values("nDCG@5"), [0.8, 0.6])


def test_a_probe_that_the_dataset_lacks_is_not_run(tmp_path):
    status = np.array([["skipped", "ok", "ok"], ["ok"] * 3, ["ok"] * 3], dtype=object)
    labels = small_world(status=status).write(tmp_path)
    table = decide(labels, "router", 0.5, np.ones(3, int))
    plans = pa.array(["bm25>dense", "bm25>dense", "dense"])
    table = table.set_column(table.column_names.index("plan"), "plan", plans)
    outcome = outcome_of(labels, table)
    np.testing.assert_allclose(outcome.latency_ms, [30.0, 80.0])
    # Over the declared arms that are there: 0.5·0.8 + 0.5·(1 − 30/30) and 0.5·0.5 + 0.5·(1 − 1).
    np.testing.assert_allclose(outcome.reward, [0.4, 0.25])


def test_a_policy_that_fuses_is_left_out_by_name(tmp_path):
    labels = small_world().write(tmp_path)
    fused = decide(labels, "fuser", 0.5, np.zeros(3, int))
    plans = pa.array(["bm25+dense"] * 3)
    fused = fused.set_column(fused.column_names.index("plan"), "plan", plans)
    table = pa.concat_tables([fused, decide(labels, "router", 0.5, np.zeros(3, int))])
    decided = join_decisions(table, labels)
    assert {group.policy for group in decided.groups} == {"router"}
    assert decided.notes[0].startswith("fuser is left out: it fuses arms")


def test_decisions_join_by_dataset_and_query_whatever_their_order(tmp_path):
    labels = make_world(n=60).write(tmp_path)
    columns = np.arange(60) % 3
    table = decide(labels, "router", 0.0, columns, overhead_ms=1.0)
    shuffled = table.take(np.random.default_rng(5).permutation(60))
    straight, mixed = (outcome_of(labels, one, lam=0.0) for one in (table, shuffled))
    np.testing.assert_array_equal(straight.answering_arm, mixed.answering_arm)
    test = labels.splits == "test"
    np.testing.assert_array_equal(straight.answering_arm, columns[test])


def test_a_failed_query_leaves_for_all_arms_or_counts_as_the_worst(tmp_path):
    status = np.array([["ok", "timeout", "ok"], ["ok", "ok", "ok"], ["ok"] * 3], dtype=object)
    world = small_world(status=status, manifest={"config": {"oracle": {"latency": {}}}})
    labels = world.write(tmp_path)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]))
    kept = outcome_of(labels, table)
    assert len(kept.evaluation) == 1 and kept.evaluation.failed_queries == 1
    np.testing.assert_allclose(kept.reward, [0.5 * 0.6 + 0.5 * (1 - 20 / 80)])
    worst = outcome_of(labels, table, failures="worst")
    assert len(worst.evaluation) == 2
    np.testing.assert_allclose(worst.latency_ms, [60.0, 20.0])  # the longest dense latency
    np.testing.assert_allclose(worst.values("nDCG@5"), [0.0, 0.6])
    world.manifest = {"config": {"oracle": {"latency": {"timeout_s": 2}}}}
    limited = outcome_of(world.write(tmp_path / "limit"), table, failures="worst")
    np.testing.assert_allclose(limited.latency_ms, [2000.0, 20.0])


def test_an_empty_result_has_quality_zero_and_stays(tmp_path):
    status = np.array([["empty", "ok", "ok"], ["ok"] * 3, ["ok"] * 3], dtype=object)
    labels = small_world(status=status).write(tmp_path)
    outcome = outcome_of(labels, decide(labels, "router", 0.0, np.zeros(3, int)), lam=0.0)
    np.testing.assert_allclose(outcome.values("nDCG@5"), [0.0, 0.6])


def test_a_policy_that_picks_an_absent_arm_is_evaluated_without_that_query(tmp_path):
    status = np.array([["ok", "skipped", "ok"], ["ok"] * 3, ["ok"] * 3], dtype=object)
    labels = small_world(status=status).write(tmp_path)
    outcome = outcome_of(labels, decide(labels, "router", 0.5, np.array([1, 1, 1])))
    np.testing.assert_array_equal(outcome.evaluated, [False, True])
    assert np.isnan(outcome.latency_ms[0]) and np.isnan(outcome.values("nDCG@5")[0])
    # The absent arm is out of the sum as well: only bm25's 10 ms are left.
    assert outcome.evaluation.total_latency_ms[0] == 10.0


def test_a_decision_without_lam_holds_at_every_lam(tmp_path):
    labels = small_world().write(tmp_path)
    table = pa.concat_tables(
        [
            decide(labels, "router", 0.5, np.zeros(3, int)),
            decide(labels, "fixed", None, np.ones(3, int)),
        ]
    )
    assert join_decisions(table, labels).lams == (0.5,)
    outcome = outcome_of(labels, table, policy="fixed")
    np.testing.assert_allclose(outcome.latency_ms, [30.0, 60.0])


def refuse(labels, table, error, message):
    with pytest.raises(error, match=message):
        compute_results(labels, table, ReportSettings(n_resamples=100))


def test_decisions_that_do_not_fit_are_refused(tmp_path):
    labels = small_world().write(tmp_path / "mine")
    table = decide(labels, "router", 0.5, np.zeros(3, int))
    twice = pa.concat_tables([table, table])
    refuse(labels, twice, RouterError, "decided the query 'q000000' of a twice at lam 0.5")
    other = make_world(n=30).write(tmp_path / "other")
    stranger = decide(other, "router", 0.5, np.zeros(30, int))
    refuse(labels, stranger, RouterError, "decisions are about queries that the labels don't have")
    moved = decide(labels, "router", 0.5, np.zeros(3, int), splits=np.array(["test"] * 3, object))
    refuse(labels, moved, RouterError, "its labels say train")
    negative = decide(labels, "router", 0.5, np.zeros(3, int), overhead_ms=-1.0)
    refuse(labels, negative, RouterError, "overhead_ms is negative")
    beyond = decide(labels, "router", 1.5, np.zeros(3, int))
    refuse(labels, beyond, RouterError, r"lam must lie in \[0, 1\]")
    unnamed = decide(labels, "best_static", 0.5, np.zeros(3, int))
    refuse(
        labels,
        unnamed,
        RouterError,
        "nothing by 'a router' on test queries; they hold: best_static",
    )
    unknown = table.set_column(5, "plan", pa.array(["mm_late"] * 3))
    refuse(labels, unknown, RouterError, "the plan 'mm_late', labels have the arms bm25, dense")


def test_no_test_query_left_is_refused(tmp_path):
    status = np.full((3, 3), "ok", dtype=object)
    status[:2, 0] = "error"
    labels = small_world(status=status).write(tmp_path)
    table = decide(labels, "router", 0.5, np.zeros(3, int))
    refuse(labels, table, LabelsError, "none of the 2 test queries can be evaluated")


def test_an_unknown_declared_arm_is_refused(tmp_path):
    labels = small_world().write(tmp_path)
    table = decide(labels, "router", 0.5, np.zeros(3, int))
    with pytest.raises(SettingsError, match="must name arms of the labels"):
        compute_results(labels, table, ReportSettings(reward_arms=("mm_late",)))


def test_an_ok_label_without_a_number_is_refused(tmp_path):
    world = small_world()
    world.latency_ms[0, 0] = np.nan
    labels = world.write(tmp_path)
    table = decide(labels, "router", 0.5, np.zeros(3, int))
    refuse(labels, table, LabelsError, "1 labels have status ok but no latency_ms")


def test_static_rows_of_decisions_are_not_counted_twice(tmp_path):
    labels = make_world(n=80).write(tmp_path)
    decided = join_decisions(suite_decisions(labels, lams=(0.0,)), labels)
    assert "static:bm25" not in {group.policy for group in decided.groups}


def test_single_timings_of_a_cascade_add_up(tmp_path):
    labels = small_world().write(tmp_path)  # each median m was timed as 0.8 m, m and 1.2 m
    samples = read_latency_samples(tmp_path, labels)
    table = decide(labels, "router", 0.5, np.array([1, 0, 0]), overhead_ms=2.0)
    expected = {"dense": 30.0, "bm25>dense": 40.0}
    for plan, milliseconds in expected.items():
        plans = pa.array([plan, "bm25", "bm25"])
        changed = table.set_column(table.column_names.index("plan"), "plan", plans)
        outcome = outcome_of(labels, changed, samples_ms=samples)
        medians = np.array([milliseconds, 20.0])
        timed = (medians[:, None] * [0.8, 1.0, 1.2]).ravel() + 2.0
        np.testing.assert_allclose(outcome.latency_samples_ms(), timed)
