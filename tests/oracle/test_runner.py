import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from arms.arm import ArmSpec
from arms.corpora.corpus import Dataset
from arms.encoders import query_states
from arms.errors import LabelsError, SettingsError
from arms.records import Query
from arms.settings import ArmSettings
from oracle import runner, work
from oracle.assemble import assemble
from oracle.labels import LABEL_COLUMNS, read_labels
from oracle.plan import OracleJob, plan_units
from oracle.settings import LatencySettings, OracleSettings
from oracle.work import run_unit
from tests.oracle.fakes import PipelineArm, dataset

pytestmark = pytest.mark.usefixtures("fake_arms")
QUICK = OracleSettings(
    k=5, shard_size=5, batch_size=2, latency=LatencySettings(warm_up=2, threads=1, timeout_s=5)
)
ARMS = (
    ArmSettings(arm="fake"),
    ArmSettings(arm="fake_b", only=("beta",), options={"fail_on": "query 3 "}),
    ArmSettings(arm="fake_late", options={"empty_on": "query 5 "}),
    ArmSettings(arm="fake_none"),
)


@pytest.fixture
def suite():
    return [dataset("beta"), dataset("alpha", n_queries=7)]


@pytest.fixture
def folders(tmp_path):
    return tmp_path / "index", tmp_path / "labels"


def oracle(suite, folders, arms=ARMS, settings=QUICK, seed=42):
    return runner.run_oracle(suite, arms, *folders, settings, seed)


def deterministic_bytes(labels_folder):
    table = pq.read_table(labels_folder / "labels.parquet")
    quality = table.select(["dataset", "query_id", "split", "arm", "status", *QUICK.measures])
    files = [(labels_folder / f"{name}.parquet").read_bytes() for name in ("runs", "queries")]
    return files, quality.to_pydict()


def test_everything_is_labelled(suite, folders):
    assert oracle(suite, folders)
    labels = read_labels(folders[1])
    assert labels.pipelines == ("fake", "fake_b", "fake_late", "fake_none")
    assert labels.router_arms == ("fake", "fake_b")  # neither late interaction nor none
    assert labels.datasets.tolist() == ["alpha"] * 7 + ["beta"] * 12
    assert set(labels.status[:7, 1]) == {"skipped"}
    assert labels.status[7 + 3, 1] == "error"
    assert labels.status[7 + 5, 2] == "empty"
    assert (labels.status == "ok").sum() == 19 * 4 - 7 - 1 - 2
    quality = labels.quality["nDCG@5"]
    assert quality[7 + 5, 2] == 0.0 and labels.latency_ms[7 + 5, 2] > 0
    assert np.isnan(quality[7 + 3, 1]) and np.isnan(labels.latency_ms[7 + 3, 1])
    fine = np.isin(labels.status, ("ok", "empty"))
    assert not np.isnan(quality[fine]).any() and (labels.latency_ms[fine] > 0).all()
    assert np.isnan(quality[~fine]).all() and np.isnan(labels.latency_ms[~fine]).all()
    assert labels.texts is not None and labels.texts[0] == "query 0 alpha"
    assert labels.primary_measure == "nDCG@5"


def test_columns_row_order_runs_and_samples(suite, folders):
    oracle(suite, folders)
    table = pq.read_table(folders[1] / "labels.parquet")
    expected = list(LABEL_COLUMNS)
    place = expected.index("latency_ms")
    assert table.column_names == [*expected[:place], "nDCG@5", "RR@5", "R@5", *expected[place:]]
    keys = list(zip(table["dataset"].to_pylist(), table["query_id"].to_pylist(), strict=True))
    assert keys == sorted(keys)
    assert table["arm"].to_pylist()[:4] == ["fake", "fake_b", "fake_late", "fake_none"]
    assert not any(table["latency_modelled"].to_pylist())
    runs = pq.read_table(folders[1] / "runs.parquet").to_pylist()
    first = runs[:5]
    arm = PipelineArm(ArmSpec("fake"), [f"d{i}" for i in range(8)])
    (ranking,) = arm.rank(["query 0 alpha"], 5)
    assert [one["doc_id"] for one in first] == list(ranking.doc_ids)
    assert [one["score"] for one in first] == list(ranking.scores)
    assert [one["rank"] for one in first] == [1, 2, 3, 4, 5]
    assert {(one["dataset"], one["query_id"], one["arm"]) for one in first} == {
        ("alpha", "q00", "fake")
    }
    assert len(runs) == 5 * (19 * 4 - 7 - 1 - 2)
    samples = pq.read_table(folders[1] / "latency_samples.parquet").to_pylist()
    assert len(samples) == 3 * (19 * 4 - 7 - 1)
    assert [one["repeat"] for one in samples[:4]] == [0, 1, 2, 0]
    timings = [one["latency_ms"] for one in samples[:3]]
    assert table["latency_ms"][0].as_py() == sorted(timings)[1]


def test_failures_are_told_and_counted(suite, folders):
    oracle(suite, folders)
    failures = pq.read_table(folders[1] / "failures.parquet").to_pylist()
    assert [one["while_doing"] for one in failures] == ["ranking", "timing"]
    assert {one["message"] for one in failures} == {"RuntimeError: poisoned by query 3 "}
    manifest = json.loads((folders[1] / "manifest.json").read_text())
    of_beta = manifest["datasets"]["beta"]
    assert of_beta["arms"]["fake_b"]["status"] == {"error": 1, "ok": 11}
    assert of_beta["arms"]["fake_late"]["status"] == {"empty": 1, "ok": 11}
    assert of_beta["dropped"] == {"empty text": 3}
    assert of_beta["arms"]["fake"]["index"]["n_documents"] == 8
    assert manifest["datasets"]["alpha"]["arms"]["fake_b"]["status"] == {"skipped": 7}
    assert manifest["concurrency"] == 1 and manifest["threads"] == [1]
    assert manifest["hardware"]["cores"] >= 1 and "numpy" in manifest["library_versions"]


def test_the_second_run_does_nothing_and_opens_nothing(suite, folders, monkeypatch):
    oracle(suite, folders)
    before = {path: path.stat().st_mtime_ns for path in folders[1].rglob("*")}
    monkeypatch.setattr(runner, "build_arm", lambda *given: pytest.fail("built an index"))
    monkeypatch.setattr(work, "open_arm", lambda *given: pytest.fail("opened an arm"))
    assert oracle(suite, folders) is False
    assert {path: path.stat().st_mtime_ns for path in folders[1].rglob("*")} == before


def test_two_undisturbed_runs_agree_byte_for_byte(suite, folders, tmp_path):
    oracle(suite, folders)
    again = (tmp_path / "index2", tmp_path / "labels2")
    oracle(list(reversed(suite)), again)
    assert deterministic_bytes(folders[1]) == deterministic_bytes(again[1])


def damage(path, how):
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    if how == "cut":
        content = content[:middle]
    else:
        content[4 : 4 + 40] = bytes(byte ^ 255 for byte in content[4 : 4 + 40])  # the first page
    path.write_bytes(content)


@pytest.mark.parametrize("how", ["cut", "flipped bits"])
def test_damaged_labels_are_named_and_written_again_without_running_an_arm(
    suite, folders, monkeypatch, caplog, how
):
    oracle(suite, folders)
    before = deterministic_bytes(folders[1])
    monkeypatch.setattr(PipelineArm, "rank_batch", None)
    for name in ("runs", "queries", "labels"):
        damage(folders[1] / f"{name}.parquet", how)
    with pytest.raises(LabelsError, match=r"queries\.parquet is (absent|damaged)"):
        read_labels(folders[1])
    assert oracle(suite, folders)
    for name in ("runs", "queries", "labels"):
        assert f"{name}.parquet: damaged" in caplog.text
    assert "failures.parquet" not in caplog.text
    assert deterministic_bytes(folders[1]) == before
    assert not oracle(suite, folders)


def test_a_damaged_manifest_is_named_and_written_again(suite, folders, caplog):
    oracle(suite, folders)
    damage(folders[1] / "manifest.json", "cut")
    assert oracle(suite, folders)
    assert "manifest.json is damaged" in caplog.text
    assert not oracle(suite, folders)


def test_damaged_units_are_named(suite, folders):
    oracle(suite, folders)
    (folders[1] / "manifest.json").unlink()
    unit = sorted((folders[1] / ".units").iterdir())[0]
    damage(unit, "cut")
    with pytest.raises(LabelsError, match=f"delete them and rerun l2r oracle.*{unit.name}"):
        oracle(suite, folders)
    unit.unlink()
    assert oracle(suite, folders)


def test_another_measure_reruns_no_arm(suite, folders, monkeypatch):
    oracle(suite, folders)
    monkeypatch.setattr(work, "open_arm", lambda *given: pytest.fail("opened an arm"))
    other = QUICK.model_copy(update={"measures": ("P@3", "MRR@5"), "router_arms": ("fake_late",)})
    assert oracle(suite, folders, settings=other)
    labels = read_labels(folders[1])
    assert tuple(labels.quality) == ("P@3", "RR@5")
    assert labels.router_arms == ("fake_late",)


def test_a_new_arm_ranks_alone_and_all_are_timed_again(suite, folders):
    oracle(suite, folders, arms=ARMS[:1])
    before = set((folders[1] / ".units").iterdir())
    oracle(suite, folders)
    kept = set((folders[1] / ".units").iterdir())
    assert before < kept
    made = sorted(path.name.split("-")[0] for path in kept - before)
    # alpha 2 shards × 2 arms, beta 3 shards × 3 arms; latency: every shard once.
    assert made == ["latency"] * 5 + ["rank"] * 13


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ({"k": 4}, {"rank", "latency"}),
        ({"batch_size": 3}, {"rank"}),
        ({"latency": LatencySettings(repeats=1, warm_up=2, threads=1, timeout_s=5)}, {"latency"}),
        ({"measures": ("P@1",), "lams": (0.2,)}, set()),
    ],
)
def test_only_what_a_setting_changes_is_done_again(suite, folders, change, kinds):
    def names(settings):
        job = OracleJob(tuple(suite), ARMS, *folders, settings, 42)
        return {unit.file_name for unit in plan_units(job)}

    runner.build_indexes(suite, ARMS, folders[0])
    before, after = names(QUICK), names(QUICK.model_copy(update=change))
    assert len(before) == len(after)
    assert {name.split("-")[0] for name in after - before} == kinds
    assert {name.split("-")[0] for name in after & before} == {"rank", "latency"} - kinds


def test_an_arm_that_fails_while_timed_has_a_ranking_and_no_quality(suite, folders):
    arms = (ArmSettings(arm="fake", options={"fail_alone_on": "query 3 beta"}),)
    oracle(suite, folders, arms)
    labels = read_labels(folders[1])
    row = labels.query_ids.tolist().index("q03", 7)
    assert labels.status[row, 0] == "error"
    assert np.isnan(labels.quality["R@5"][row, 0]) and np.isnan(labels.latency_ms[row, 0])
    runs = pq.read_table(folders[1] / "runs.parquet").to_pylist()
    assert sum((one["dataset"], one["query_id"]) == ("beta", "q03") for one in runs) == 5
    (failure,) = pq.read_table(folders[1] / "failures.parquet").to_pylist()
    assert (failure["while_doing"], failure["message"]) == (
        "timing",
        "RuntimeError: alone with query 3 beta",
    )


def test_grades_tell_the_quality_and_come_without_ranking_again(suite, folders, monkeypatch):
    oracle(suite, folders)
    runs = pq.read_table(folders[1] / "runs.parquet")
    qrels = {one.name: one.qrels for one in suite}
    gain = {}
    for row in runs.to_pylist():
        judged = qrels[row["dataset"]][row["query_id"]]
        assert row["grade"] == judged.get(row["doc_id"], 0)
        key = (row["dataset"], row["query_id"], row["arm"])
        gain[key] = gain.get(key, 0.0) + row["grade"] / np.log2(1 + row["rank"])
    assert len({one > 0 for one in gain.values()}) == 2
    for row in pq.read_table(folders[1] / "labels.parquet").to_pylist():
        if row["status"] == "ok":
            grades = sorted(qrels[row["dataset"]][row["query_id"]].values(), reverse=True)[:5]
            ideal = sum(grade / np.log2(2 + place) for place, grade in enumerate(grades))
            found = gain[row["dataset"], row["query_id"], row["arm"]]
            assert row["nDCG@5"] == pytest.approx(found / ideal)
    monkeypatch.setattr(runner, "run_unit", None)
    for name, column in (("runs", "grade"), ("queries", "relevant_grades")):
        path = folders[1] / f"{name}.parquet"
        whole = path.read_bytes()
        # as before there were grades
        pq.write_table(pq.read_table(path).drop_columns([column]), path)
        assert oracle(suite, folders)
        assert path.read_bytes() == whole
    assert not oracle(suite, folders)


def test_units_may_be_run_in_any_order_and_twice(suite, folders, tmp_path):
    oracle(suite, folders)
    job = OracleJob(tuple(suite), ARMS, folders[0], tmp_path / "other", QUICK, 42)
    units = plan_units(job)
    with pytest.raises(LabelsError, match="units of work aren't done"):
        assemble(job, units)
    assert not (tmp_path / "other" / "manifest.json").exists()
    for unit in [*reversed(units), *units]:
        run_unit(unit, job)
    assemble(job, units)
    assert deterministic_bytes(tmp_path / "other") == deterministic_bytes(folders[1])


def test_a_changed_corpus_is_indexed_and_labelled_anew(suite, folders):
    oracle(suite, folders)
    before = deterministic_bytes(folders[1])
    assert oracle([dataset("beta", n_documents=12), suite[1]], folders)
    assert deterministic_bytes(folders[1]) != before


def test_labels_are_unfinished_without_a_file(suite, folders):
    oracle(suite, folders)
    (folders[1] / "runs.parquet").unlink()
    assert oracle(suite, folders)
    assert (folders[1] / "runs.parquet").is_file()


def test_a_sample_is_timed_and_the_rest_modelled(suite, folders):
    protocol = LatencySettings(warm_up=0, threads=1, sample=4, timeout_s=5)
    oracle(suite, folders, settings=QUICK.model_copy(update={"latency": protocol}))
    table = pq.read_table(folders[1] / "labels.parquet").to_pylist()
    fake = [one for one in table if one["arm"] == "fake"]
    assert sum(one["latency_modelled"] for one in fake) == 3 + 8
    for one in fake:
        assert one["latency_ms"] > 0
        assert (one["repeats"] == 0) == one["latency_modelled"] == (one["search_ms"] is None)
    skipped = [one for one in table if one["status"] == "skipped"]
    assert skipped and not any(one["latency_modelled"] for one in skipped)


def test_an_arm_that_no_sampled_query_could_time_is_an_error(suite, folders):
    protocol = LatencySettings(warm_up=0, threads=1, sample=1, timeout_s=5)
    arms = (ArmSettings(arm="fake"), ArmSettings(arm="fake_b", options={"fail_on": "query"}))
    oracle(suite, folders, arms, QUICK.model_copy(update={"latency": protocol}))
    labels = read_labels(folders[1])
    assert set(labels.status[:, 1]) == {"error"}
    assert np.isnan(labels.latency_ms[:, 1]).all()


def test_a_stated_latency_is_recorded_and_flagged(suite, folders):
    arms = (ArmSettings(arm="fake", options={"stated_ms": 250.0}), ArmSettings(arm="fake_b"))
    oracle(suite, folders, arms)
    labels = read_labels(folders[1])
    assert set(labels.latency_ms[:, 0]) == {250.0}
    table = pq.read_table(folders[1] / "labels.parquet").to_pylist()
    assert {one["repeats"] for one in table if one["arm"] == "fake"} == {0}
    assert labels.manifest["datasets"]["beta"]["arms"]["fake"]["latency_stated"] == 12


def test_two_queries_are_the_fewest(folders):
    oracle([dataset("one", n_queries=2, n_documents=1)], folders, ARMS[:1])
    labels = read_labels(folders[1])
    assert labels.quality["R@5"].tolist() == [[1.0], [1.0]]
    assert sorted(labels.splits) == ["test", "train"]
    with pytest.raises(SettingsError, match="none can be held out for testing"):
        oracle([dataset("one", n_queries=1, n_documents=1)], folders, ARMS[:1])


def test_every_problem_is_told_before_anything_runs(suite, folders):
    unjudged = Dataset("gamma", suite[0].corpus, (Query("q1", "text"),), {})
    arms = (
        ArmSettings(arm="fake"),
        ArmSettings(arm="fake"),
        ArmSettings(arm="fake_b", only=("bta",)),
    )
    settings = OracleSettings(measures=("foo@5",), router_arms=("fake", "bm42"))
    with pytest.raises(SettingsError) as caught:
        oracle([*suite, suite[0], unjudged], folders, arms, settings)
    for part in (
        "2 datasets are called 'beta'",
        "gamma: 1 queries have no judgement, e.g. q1",
        "2 arms are called 'fake'",
        "arm 'fake_b' is only for bta",
        "router_arms has bm42",
        "knows no measure 'foo@5'",
    ):
        assert part in str(caught.value)
    assert not folders[0].exists() and not folders[1].exists()
    with pytest.raises(SettingsError, match="there is no dataset"):
        oracle([], folders)
    with pytest.raises(SettingsError, match="there is no arm"):
        oracle(suite, folders, [])


def test_the_manifest_says_what_each_opened_arm_holds_and_runs_its_encoder_with(
    suite, folders, monkeypatch
):
    monkeypatch.setattr(PipelineArm, "memory_bytes", lambda arm: 10 * len(arm.doc_ids))
    told = {"part": "onnx"}
    monkeypatch.setattr(
        PipelineArm, "query_backends", lambda arm: told if arm.spec.identity == "fake" else {}
    )
    oracle(suite, folders)
    manifest = json.loads((folders[1] / "manifest.json").read_text())
    arms = manifest["datasets"]["beta"]["arms"]
    assert {name: entry["index"]["memory_bytes"] for name, entry in arms.items()} == {
        "fake": 80, "fake_b": 80, "fake_late": 80, "fake_none": 80
    }  # fmt: skip
    assert arms["fake"]["query_backends"] == {"part": ["onnx"]}
    assert arms["fake_b"]["query_backends"] == {}


def test_arms_share_query_states_while_they_rank_and_nothing_while_they_are_timed(
    suite, folders, monkeypatch
):
    rank_batch, shared = PipelineArm.rank_batch, {"rank": set(), "latency": set()}
    passes = []

    def noted(unit, *given):
        passes.append(unit.kind)
        return run_unit(unit, *given)

    def watched(arm, queries, k, clock):
        shared[passes[-1]].add(query_states.shared_by_arms())
        return rank_batch(arm, queries, k, clock)

    monkeypatch.setattr(runner, "run_unit", noted)
    monkeypatch.setattr(PipelineArm, "rank_batch", watched)
    assert oracle(suite, folders)
    assert shared["latency"] == {None}
    assert len(shared["rank"]) == len(suite) and None not in shared["rank"]
