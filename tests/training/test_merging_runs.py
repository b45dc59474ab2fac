"""Whole commands with the policy that merges: its decisions and record, calibration, holdout."""

import ir_measures
import numpy as np
import pyarrow.parquet as pq
import pytest

import l2r
from arms.errors import LabelsError
from arms.records import Ranking
from oracle.labels import read_labels
from router import Router
from router.artifact import Defaults, read_router
from router.decisions import read_decisions
from router.policies import load_policy
from router.policy import PolicyInputs
from router.probe_features import document_name
from router.targets import lam_for_latency
from tests.training.graded import JUDGED, document_of, graded_labels
from tests.training.synthetic import ARMS
from training.calibrate_router import calibrate_router
from training.domain_settings import GateSettings
from training.policy_settings import (
    MergingSettings,
    ProbingSettings,
    RelevanceSettings,
)
from training.settings import FrozenSettings, TrainingSettings
from training.table import routing_table
from training.train_routers import train_routers

LAMS = (0.0, 1.0)
TREES = {"rounds": 10, "learning_rate": 0.3, "feature_share": 1.0}
ANSWERS = ("answer:nDCG@5", "answer:RR@5")


def settings_of(encoder, **changed):
    return TrainingSettings(
        lams=LAMS,
        encoder=str(encoder),
        overhead_queries=3,
        policies=("merging",),
        frozen=FrozenSettings(weight_decays=(0.01,), epochs=2),
        probing=ProbingSettings(relevance=RelevanceSettings(**TREES)),
        merging=MergingSettings(arm_sets=2, fuse=False),
        **changed,
    )


@pytest.fixture(scope="module")
def trained(tmp_path_factory, tiny_bert):
    root = tmp_path_factory.mktemp("merging")
    labels = graded_labels(root / "labels", count=300, lacking={"beta": ("text_rerank",)})
    settings = settings_of(tiny_bert, cross_validation_folds=2)
    record = train_routers(labels, None, root / "router", settings)
    return labels, root / "router", record


def decisions_of(folder, **wanted):
    found = read_decisions(folder / "decisions.parquet").to_pandas()
    for name, value in wanted.items():
        found = found[found[name] == value]
    return found


def test_exactly_merged_plans_have_an_answer_of_their_own(trained):
    decisions = decisions_of(trained[1])
    merges = decisions["plan"].str.contains("&")
    assert merges.any() and not merges.all()
    for column in ANSWERS:
        np.testing.assert_array_equal(decisions[column].notna(), merges)
    assert set(decisions[merges]["policy"]) == {"merging"}
    assert set(decisions[merges]["lam"]) == {0.0}
    assert set(decisions[merges]["split"]) == {"train", "val", "test", "cv0", "cv1"}
    assert [name for name in decisions.columns if name.startswith("answer:")] == list(ANSWERS)
    for answer in ANSWERS:  # no order of the same documents is better than the ideal one
        ceiling = decisions[answer.replace("answer:", "ceiling:")]
        np.testing.assert_array_equal(ceiling.notna(), merges)
        assert (ceiling[merges] >= decisions[answer][merges] - 1e-12).all()
        assert (ceiling[merges] > decisions[answer][merges]).any()


def test_what_merges_may_search_by_default_and_never_selects(trained):
    labels, folder, record = trained
    assert record.defaults == Defaults("router", "merging")
    assert set(record.calibration) == {"router", "merging"}
    assert record.quality_measure == "nDCG@5"
    action = routing_table(read_labels(labels), record.arms)
    total_ms = action.total_latency_ms()[action.comparable].mean()
    assert record.latency_total_ms == pytest.approx(total_ms)
    assert Router.load(folder).select("what", lam=0.0).policy == "router"


def test_answers_are_as_good_as_ir_measures_says_of_what_is_served(trained):
    """Nothing of training is used here but the policy on disk."""
    labels, folder, _ = trained
    policy = load_policy(folder / "policies" / "merging")
    queries = pq.read_table(labels / "queries.parquet").to_pandas()
    texts = dict(zip(queries["query_id"], queries["text"], strict=True))
    number_of = {query_id: number for number, query_id in enumerate(sorted(texts))}
    runs = pq.read_table(labels / "runs.parquet").to_pandas()
    found = {
        key: Ranking(
            tuple(document_name(key[0], one) for one in part.sort_values("rank")["doc_id"]),
            tuple(part.sort_values("rank")["score"]),
        )
        for key, part in runs.groupby(["dataset", "query_id", "arm"])
    }
    told = decisions_of(folder, policy="merging", lam=0.0, split="test")
    assert len(told) == 30
    checked = {"alpha": 0, "beta": 0}
    for row in told.to_dict("records"):
        dataset, query_id = row["dataset"], row["query_id"]
        probed = {
            arm: [found[dataset, query_id, arm]]
            for arm in policy.probes_at(0.0)
            if (dataset, query_id, arm) in found
        }
        competes = np.array([[(dataset, query_id, arm) in found for arm in ARMS]])
        decided = policy.decide(
            [texts[query_id]], 0.0, PolicyInputs(probed=probed, competes=competes)
        )
        assert str(decided.plans[0]) == row["plan"]
        run = {
            name.removeprefix(f"{dataset}/"): -float(rank)
            for rank, name in enumerate(decided.rankings[0].doc_ids)
        }
        qrels = {
            document_of(place, number_of[query_id]): int(grade)
            for place, grade in enumerate(JUDGED)
            if grade
        }
        assert len(qrels) == 2
        for name in ("nDCG@5", "RR@5"):
            measure = ir_measures.parse_measure(name)
            value = ir_measures.calc_aggregate([measure], {"q": qrels}, {"q": run})[measure]
            assert row[f"answer:{name}"] == pytest.approx(value, abs=1e-6)
        checked[dataset] += 1
    assert min(checked.values()) > 5


def test_the_record_tells_of_the_answers(trained):
    labels_folder, folder, record = trained
    labels = read_labels(labels_folder)
    table = routing_table(labels, labels.router_arms)
    told = decisions_of(folder, policy="merging", lam=0.0)
    for split in ("val", "test"):
        here = told[told["split"] == split]
        metrics = record.training_metrics["merging"]["0"][split]
        assert metrics["queries"] == len(here) == 30
        assert metrics["quality"] == pytest.approx(here["answer:nDCG@5"].mean())
        assert not metrics["collapsed"]
        single = np.where(table.competes, table.quality, 0.0)[table.splits == split]
        assert metrics["quality"] > single.mean(axis=0).max()
    expected = read_router(folder).expected["merging"][0.0]
    here = told[told["split"] == "val"]
    last = here["plan"].str.split("&").str[-1].replace("", "bm25")
    enough = [arm for arm in expected if (last == arm).sum() >= 20]
    for arm in enough:
        mean = here[last == arm]["answer:nDCG@5"].mean()
        assert expected[arm].quality == pytest.approx(mean)
    at_1 = record.training_metrics["merging"]["1"]["test"]
    column = table.arms.index("bm25")
    assert at_1["share"]["bm25"] == 1.0
    assert at_1["quality"] == pytest.approx(table.quality[table.splits == "test", column].mean())


def test_the_record_warns_of_sets_that_few_queries_compared(trained):
    (told,) = (one for one in trained[2].warnings if "validation queries" in one)
    assert "and so are those by which merging chooses its set of arms" in told
    assert told in read_router(trained[1]).warnings


def test_every_arm_of_a_merged_plan_is_paid_for(trained):
    labels_folder, folder, record = trained
    labels = read_labels(labels_folder)
    table = routing_table(labels, labels.router_arms)
    test = table.splits == "test"
    arms_ms = np.where(table.competes, table.latency_ms, 0.0)[test].sum(axis=1)
    policy = load_policy(folder / "policies" / "merging")
    assert policy.probes_at(0.0) == ARMS
    told = decisions_of(folder, policy="merging", lam=0.0, split="test")
    latency_ms = record.training_metrics["merging"]["0"]["test"]["latency_ms"]
    assert latency_ms == pytest.approx(arms_ms.mean() + told["overhead_ms"].mean())
    assert (told["overhead_ms"] > 0).all()


def test_a_calibrated_wish_is_kept_between_sets(trained, capsys, monkeypatch):
    labels, folder, _ = trained
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["calibrate", str(folder), str(labels), "--policy", "merging", "--split", "test"])
    assert "merging on 30 queries of the split 'test'" in capsys.readouterr().out
    policy = load_policy(folder / "policies" / "merging")
    found = read_router(folder).calibration["merging"]
    assert not found.any_lam  # between two sets lies none
    of_set = {}
    for point in found.points:
        of_set.setdefault(policy.overhead_key(point.lam), set()).add(point.latency_ms.value)
    assert set(of_set) == set(policy.overhead_keys()) and len(of_set) >= 2
    assert all(len(latencies) == 1 for latencies in of_set.values())
    slow, *_, fast = sorted((one for (one,) in of_set.values()), reverse=True)
    router = Router.load(folder)
    between = (slow + fast) / 2
    told = router.record.calibration["merging"]
    answering = next(point for point in told.points if point.latency_ms.value <= between)
    choice = router.select("which", policy="merging", max_latency_ms=fast * 1.001)
    assert choice.promised.latency_ms.value == fast
    assert policy.overhead_key(choice.lam) == policy.overhead_key(1.0)
    assert choice.reason == "the best arm at this λ, whatever the query"
    point = lam_for_latency(told, between)
    assert point == answering
    assert point.latency_ms.value in of_set[policy.overhead_key(point.lam)]
    quality = [point.quality.value for point in told.points]
    assert max(quality) > quality[-1] + 0.1


def test_calibrating_without_rankings_is_refused(trained, tmp_path):
    folder = trained[1]
    other = graded_labels(tmp_path / "other", count=30)
    (other / "runs.parquet").unlink()
    with pytest.raises(LabelsError, match=r"looks at what bm25, text_dense.* find, and the labels"):
        calibrate_router(folder, other, "merging", "test")
    ungraded = graded_labels(tmp_path / "ungraded", count=30, grades=False)
    with pytest.raises(LabelsError, match="rerun l2r oracle, which adds them"):
        calibrate_router(folder, ungraded, "merging", "test")


def test_it_is_left_out_where_one_dataset_is(trained, tmp_path, tiny_bert, capsys):
    labels = trained[0]
    (tmp_path / "run.yaml").write_text(
        f"labels: {labels}\noutput: out\n"
        "training:\n"
        f"  lams: [0, 1]\n  encoder: {tiny_bert}\n  overhead_queries: 2\n"
        "  cross_validation_folds: 2\n  policies: [merging]\n"
        "  frozen: {weight_decays: [0.01], epochs: 2}\n"
        "  probing: {relevance: {rounds: 5, learning_rate: 0.3}}\n"
        "  merging: {arm_sets: 1}\n"
        "report: {lams: [0], n_resamples: 100}\n",
        encoding="utf-8",
    )
    with pytest.raises(SystemExit) as stopped:
        l2r.main(["holdout", str(tmp_path / "run.yaml")])
    printed, errors = capsys.readouterr()
    assert int(stopped.value.code or 0) == 0, errors
    assert "merging" in printed
    for name in ("in_domain_query", "out_of_domain"):
        told = read_decisions(tmp_path / "out" / "holdout" / f"{name}.parquet").to_pandas()
        merged = told[(told["policy"] == "merging") & (told["lam"] == 0.0)]
        assert len(merged) == 300
        assert merged["plan"].str.contains(r"[&+]").all()
        assert merged["answer:nDCG@5"].between(0, 1).all()
        assert merged["answer:nDCG@5"].mean() > 0.5


def test_it_may_be_the_default_policy(tmp_path, tiny_bert):
    labels = graded_labels(tmp_path / "labels", count=100)
    settings = settings_of(
        tiny_bert, router="merging", cross_validation_folds=0, gate=GateSettings(enabled=False)
    )
    record = train_routers(labels, None, tmp_path / "router", settings)
    assert record.policies == ("router", "router_per_lam", "best_static")
    assert record.defaults == Defaults("router", "router")  # the one named answers both ways
    assert not record.calibration["router"].any_lam
    told = decisions_of(tmp_path / "router", policy="router", lam=0.0)
    assert told["plan"].str.contains("&").all() and told["answer:nDCG@5"].notna().all()
    drawn = decisions_of(tmp_path / "router", policy="random_same_mix")
    assert drawn["answer:nDCG@5"].isna().all() and not drawn["plan"].str.contains("&").any()
