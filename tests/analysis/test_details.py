"""Groups of queries, reward maps, agreement, calibration and losses against plain loops."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from analysis.agreement import arm_agreement
from analysis.bootstrap import Resamples
from analysis.calibration import calibration, expected_quality
from analysis.decision_codes import read_decision_batches
from analysis.details import ReportInputs
from analysis.evaluation import evaluate_queries
from analysis.lost_queries import lost_queries, read_found_documents
from analysis.outcomes import Picks, score
from analysis.query_facts import read_query_facts
from analysis.query_groups import DENSITY, LENGTH, PAGE_KIND, density_grouping, length_grouping
from analysis.results import compute_results
from analysis.reward_map import reward_map
from analysis.samples import read_latency_samples
from analysis.settings import ReportSettings
from analysis.write_report import write_report
from arms.errors import LabelsError, RouterError
from tests.analysis.conftest import SETTINGS
from tests.analysis.synthetic import decide, make_world, suite_decisions, write_suite


@pytest.fixture
def small(tmp_path):
    world = make_world(n=60, test_share=1.0)
    world.quality = np.round(world.quality * (world.quality > 0.4), 1)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    world.status[:5, 2] = "skipped"
    labels = world.write(tmp_path)
    return labels, evaluate_queries(labels, np.arange(60), "test", labels.router_arms)


def outcome_of(evaluation, columns, lam=0.1, predicted=None):
    columns = np.asarray(columns)
    runs = columns[:, None] == np.arange(len(evaluation.pipelines))
    nothing = np.zeros(len(evaluation))
    picks = Picks(columns, runs, nothing, nothing, predicted)
    return score(evaluation, "router", lam, picks)


def test_reward_map_averages_what_each_arm_would_have_earned(small):
    _, evaluation = small
    outcome = outcome_of(evaluation, np.arange(60) % 3)
    found = reward_map(outcome)
    total = evaluation.total_latency_ms
    for row in range(3):
        members = [q for q in range(60) if q % 3 == row and outcome.evaluated[q]]
        for column in range(4):
            rewards = [
                0.9 * evaluation.quality["nDCG@5"][q, column]
                + 0.1 * (1 - evaluation.latency_ms[q, column] / total[q])
                for q in members
                if np.isfinite(evaluation.latency_ms[q, column])
            ]
            assert found.rewards[row, column] == pytest.approx(np.mean(rewards))
        assert found.counts[row] == len(members)
    assert np.isnan(found.rewards[3]).all() and found.counts[3] == 0


def test_agreement_equals_counting(small):
    _, evaluation = small
    quality = evaluation.quality["nDCG@5"]
    found = arm_agreement(evaluation)
    for i in range(4):
        for j in range(4):
            both = [q for q in range(60) if np.isfinite(quality[q, [i, j]]).all()]
            same = [q for q in both if (quality[q, i] > 0) == (quality[q, j] > 0)]
            assert found.agreement[i, j] == pytest.approx(len(same) / len(both))
        own = [q for q in range(60) if np.isfinite(quality[q, i])]
        rest = np.delete(np.nan_to_num(quality), i, axis=1)
        alone = [q for q in own if quality[q, i] > 0 and not (rest[q] > 0).any()]
        best = [q for q in own if quality[q, i] > np.nanmax(np.delete(quality[q], i))]
        assert found.answers_alone[i] == pytest.approx(len(alone) / len(own))
        assert found.best_alone[i] == pytest.approx(len(best) / len(own))
    assert found.answered_by_none == int((np.nan_to_num(quality) == 0).all(axis=1).sum())


def test_calibration_by_arm_takes_only_the_routers_own_expectations(small):
    _, evaluation = small
    one = {"arm": "bm25", "lam": 0.1, "quality": 0.7, "latency_ms": 1.0, "queries": 9}
    assert expected_quality({}, "router") == {}
    assert expected_quality({"expected": [one]}, "router") == {}  # of nobody
    named = {"expected": [{**one, "policy": "tfidf"}]}
    assert expected_quality(named, "router") == {}
    expected = expected_quality(named, "tfidf")
    assert expected == {(0.1, "bm25"): 0.7}
    outcome = outcome_of(evaluation, np.arange(60) % 2)
    found = calibration([outcome], expected, Resamples(60, 200, 1), 0.95)
    (point,) = found.points
    observed = evaluation.quality["nDCG@5"][::2, 0].mean()
    assert (point.group, point.predicted, point.observed.n) == ("bm25", 0.7, 30)
    assert point.observed.value == pytest.approx(observed)
    assert found.error(0.1) == pytest.approx(abs(observed - 0.7))
    assert found.error(0.5) is None
    assert calibration([outcome], {}, Resamples(60, 200, 1), 0.95) is None


def test_calibration_by_query_uses_ten_bins_of_equal_size(small):
    _, evaluation = small
    predicted = np.linspace(0, 1, 60)
    predicted[-3:] = np.nan
    outcome = outcome_of(evaluation, np.zeros(60, dtype=int), predicted=predicted)
    found = calibration([outcome], {}, Resamples(60, 200, 1), 0.95)
    assert found.per_query and len(found.points) == 10
    assert sum(one.observed.n for one in found.points) == 57
    assert {one.observed.n for one in found.points} <= {5, 6}
    assert [one.predicted for one in found.points] == sorted(one.predicted for one in found.points)
    gaps = [abs(one.predicted - one.observed.value) * one.observed.n for one in found.points]
    assert found.error(0.1) == pytest.approx(sum(gaps) / 57)


def test_predictions_in_decisions_reach_the_report(tmp_path):
    labels = make_world(n=90).write(tmp_path / "labels")
    table = decide(labels, "router", 0.0, np.zeros(90, dtype=int))
    table = table.append_column("predicted_quality", pa.array(np.linspace(0.2, 0.8, 90)))
    pq.write_table(table, tmp_path / "decisions.parquet")
    batches = read_decision_batches(tmp_path / "decisions.parquet")
    results = compute_results(labels, batches, SETTINGS)
    assert results.details.calibration.per_query


def test_losses_are_the_largest_regrets(small):
    labels, evaluation = small
    router = outcome_of(evaluation, np.full(60, 1))
    oracle = outcome_of(evaluation, np.zeros(60, dtype=int))
    found = lost_queries(labels, router, oracle, listed=7)
    regret = oracle.reward - router.reward
    assert [one.regret for one in found] == pytest.approx(np.sort(regret)[::-1][:7])
    assert found[0].text is None and len(found[0].arms) == 4
    assert lost_queries(labels, router, router) == []


def test_documents_found_are_named_in_order(small, tmp_path):
    labels, evaluation = small
    oracle = outcome_of(evaluation, np.zeros(60, dtype=int))
    found = lost_queries(labels, outcome_of(evaluation, np.full(60, 1)), oracle)
    assert read_found_documents(tmp_path, found) is None
    first = found[0]
    rows = [
        (first.dataset, first.query_id, "bm25", rank, f"d{rank}", 9.0 - rank)
        for rank in (3, 1, 2, 4)
    ] + [("elsewhere", first.query_id, "bm25", 1, "other", 1.0)]
    names = ("dataset", "query_id", "arm", "rank", "doc_id", "score")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "runs.parquet")
    documents = read_found_documents(tmp_path, found)
    assert documents == {(first.dataset, first.query_id, "bm25"): ("d1", "d2", "d3")}
    (tmp_path / "runs.parquet").write_bytes(b"not parquet")
    with pytest.raises(LabelsError, match=r"runs\.parquet is damaged"):
        read_found_documents(tmp_path, found)


def test_groups_by_length_and_density():
    lengths = length_grouping(np.array([1, 5, 6, 30, 31, 400.0]))
    assert [lengths.groups[code] for code in lengths.codes] == [
        "1 to 5 words",
        "1 to 5 words",
        "6 to 10 words",
        "21 to 30 words",
        "31 words or more",
        "31 words or more",
    ]
    density = density_grouping(np.array([0.0, 0.19, 0.2, 1.0, np.nan]))
    assert density.codes.tolist() == [0, 0, 1, 4, -1]


def add_columns(labels_folder, **columns):
    path = labels_folder / "queries.parquet"
    table = pq.read_table(path)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    pq.write_table(table, path)


def test_sections_about_pages_appear_only_where_labels_know_of_pages(tmp_path, report):
    plain = report.markdown.read_text()
    assert "By visual density" not in plain and "By kind of page" not in plain
    labels_folder, router_folder = write_suite(tmp_path, make_world(n=200), folds=0)
    rng = np.random.default_rng(0)
    density = np.where(np.arange(200) % 7 == 0, None, rng.random(200))
    kinds = np.array(["chart", "table", "", None], dtype=object)[np.arange(200) % 4]
    texts = ["word " * (1 + i % 20) for i in range(200)]
    add_columns(labels_folder, visual_density=density, page_kind=kinds, text=texts)
    found = write_report(labels_folder, router_folder, tmp_path / "report", SETTINGS)
    text = found.markdown.read_text()
    for title in ("By visual density", "By kind of page", "Regret by query length"):
        assert title in text
    for name in ("quality_by_density", "routing_share_by_density", "regret_by_length"):
        assert (tmp_path / "report" / f"{name}.png").is_file()
        assert (tmp_path / "report" / f"{name}.csv").is_file()
    labels = compute_facts(labels_folder)
    assert set(labels.details.groupings) == {"dataset", LENGTH, DENSITY, PAGE_KIND}
    groups = labels.details.groupings[PAGE_KIND]
    assert groups.groups == ("chart", "table")


def test_query_text_is_printed_unless_the_settings_forbid_it(tmp_path):
    labels_folder, router_folder = write_suite(tmp_path, make_world(n=100), folds=0)
    add_columns(labels_folder, text=[f"secret words {i}" for i in range(100)])
    shown = write_report(labels_folder, router_folder, tmp_path / "shown", SETTINGS)
    assert "secret words" in shown.html.read_text()
    kept = ReportSettings(n_resamples=100, query_text=False)
    hidden = write_report(labels_folder, router_folder, tmp_path / "hidden", kept).folder
    for path in hidden.iterdir():
        assert b"secret" not in path.read_bytes(), path.name
    assert (hidden / "regret_by_length.csv").is_file()


def compute_facts(folder):
    from oracle.labels import read_labels

    labels = read_labels(folder)
    facts = read_query_facts(folder, labels)
    return compute_results(
        labels, suite_decisions(labels, folds=0), SETTINGS, beside=lambda _: ReportInputs(facts)
    )


def test_group_means_are_means_over_the_groups_queries(tmp_path):
    labels_folder, _ = write_suite(tmp_path, make_world(n=150), folds=0)
    add_columns(labels_folder, visual_density=np.linspace(0, 1, 150))
    results = compute_facts(labels_folder)
    evaluation = results.test.scores.evaluation
    written = [int(query_id[1:]) for query_id in results.labels.query_ids[evaluation.label_rows]]
    density = np.linspace(0, 1, 150)[written]  # labels are sorted by dataset, the file isn't
    quality = evaluation.quality["nDCG@5"][:, 0]
    first = next(one for one in results.details.group_quality if one.policy == "static:bm25")
    assert first.group == "0.0–0.2"
    assert first.estimate.value == pytest.approx(quality[density < 0.2].mean())


def test_a_density_outside_its_range_is_refused(tmp_path):
    labels_folder, router_folder = write_suite(tmp_path, make_world(n=50), folds=0)
    add_columns(labels_folder, visual_density=np.full(50, 1.5))
    with pytest.raises(LabelsError, match=r"50 queries have a visual_density outside \[0, 1\]"):
        write_report(labels_folder, router_folder, tmp_path / "report", SETTINGS)


def test_damaged_inputs_are_named(suite, tmp_path):
    labels_folder, _ = suite
    from oracle.labels import read_labels

    labels = read_labels(labels_folder)
    samples = tmp_path / "latency_samples.parquet"
    samples.write_bytes(b"PAR1 but no more")
    with pytest.raises(LabelsError, match=r"latency_samples\.parquet is damaged"):
        read_latency_samples(tmp_path, labels)
    pq.write_table(pa.table({"dataset": ["a"], "query_id": ["b"], "arm": ["c"]}), samples)
    with pytest.raises(LabelsError, match="lacks the columns latency_ms; delete manifest"):
        read_latency_samples(tmp_path, labels)
    decisions = tmp_path / "decisions.parquet"
    decisions.write_bytes(b"nothing")
    with pytest.raises(RouterError, match=r"decisions\.parquet is damaged"):
        list(read_decision_batches(decisions))
    pq.write_table(pa.table({"policy": ["router"]}), decisions)
    with pytest.raises(RouterError, match="lacks the columns dataset, query_id"):
        list(read_decision_batches(decisions))


def test_storage_is_read_from_either_place(tmp_path):
    world = make_world(n=60)
    record = {"size_bytes": 2_000_000, "n_units": 50, "build_seconds": 2.0, "memory_bytes": None}
    world.manifest = {"indexes": {"manuals": {"bm25": record, "text_dense": {"size_bytes": 1}}}}
    labels_folder, router_folder = write_suite(tmp_path, world, folds=0)
    found = write_report(
        labels_folder, router_folder, tmp_path / "report", ReportSettings(n_resamples=100)
    )
    text = found.markdown.read_text()
    assert "## Storage and memory" in text
    assert "| bm25 | 1 | 50 | 2.00 | – | 2.00 | 25.0 | – |" in text
    assert json.loads((labels_folder / "manifest.json").read_text())["indexes"]


def test_arms_are_compared_by_density_on_the_queries_that_all_have(tmp_path):
    world = make_world(n=120)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    world.status[np.array(world.datasets) == "claims", 2] = "skipped"
    labels = world.write(tmp_path)
    add_columns(tmp_path, visual_density=np.full(120, 0.5))
    facts = read_query_facts(tmp_path, labels)
    decisions = decide(labels, "router", 0.0, np.zeros(120, dtype=int))
    results = compute_results(labels, decisions, SETTINGS, beside=lambda _: ReportInputs(facts))
    is_test = np.array(world.splits) == "test"
    n = int((is_test & (np.array(world.datasets) != "claims")).sum())
    assert {one.estimate.n for one in results.details.group_quality} == {n}
    assert 0 < n < is_test.sum()
