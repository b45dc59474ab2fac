"""Two runs side by side: what changed, what is noise, what only one has, what is nonsense."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy import stats

from analysis.compare import Side, compare_runs
from analysis.compare_source import open_side
from analysis.compare_text import save_comparison, write_comparison
from arms.errors import LabelsError, SettingsError
from oracle.labels import read_labels
from router.decisions import write_decisions
from tests.analysis.synthetic import decide, make_world, rewards, suite_decisions, write_suite

LAMS = (0.0, 0.3)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_suite(folder, lams=LAMS)
    return folder


@pytest.fixture(scope="module")
def side(run):
    return open_side(run)


def with_router(side, columns, overhead_ms=1.5, lam=0.3, name="b"):
    """The side with other decisions of the router at one λ, over all queries."""
    table = side.decisions
    mine = pc.and_(pc.equal(table["policy"], "router"), pc.equal(table["lam"], lam))
    rest = table.filter(pc.invert(mine))
    made = decide(side.labels, "router", lam, columns, overhead_ms)
    return Side(name, side.labels, pa.concat_tables([rest, made]))


def change_of(compared, policy, lam):
    return next(one for one in compared.changes if (one.policy, one.lam) == (policy, lam))


def test_a_run_is_the_same_as_itself(side):
    compared = compare_runs(side, side)
    assert {change.verdict for change in compared.changes} == {"the same"}
    assert compared.only == () and compared.notes == ()
    assert compared.n == int((side.labels.splits == "test").sum())
    assert "Nothing changed" in write_comparison(compared)


def test_a_change_is_measured_on_the_same_queries_and_only_it_is_one(side):
    columns = np.full(len(side.labels.query_ids), side.labels.pipelines.index("bm25"))
    compared = compare_runs(side, with_router(side, columns))
    changed = [one for one in compared.changes if one.verdict != "the same"]
    assert [(one.policy, one.lam) for one in changed] == [("router", 0.3)]
    (change,) = changed
    test = side.labels.splits == "test"
    per_query = rewards(side.labels, 0.3)
    total = side.labels.latency_ms[:, side.labels.columns_of(side.labels.router_arms)].sum(axis=1)
    charged = 0.3 * 1.5 / total
    arms = dict(
        (row["query_id"], row["plan"])
        for row in side.decisions.filter(
            pc.and_(
                pc.equal(side.decisions["policy"], "router"), pc.equal(side.decisions["lam"], 0.3)
            )
        ).to_pylist()
        if row["split"] == "test"
    )
    before = np.array(
        [side.labels.pipelines.index(arms[query]) for query in side.labels.query_ids[test]]
    )
    ours = per_query[test, 0] - charged[test]
    theirs = per_query[test][np.arange(test.sum()), before] - charged[test]
    assert change.reward.value == pytest.approx((ours - theirs).mean(), abs=1e-12)
    assert change.reward_b == pytest.approx(ours.mean()) and change.n == test.sum()
    assert change.other_arm == pytest.approx((before != 0).mean())
    assert change.holm_p == pytest.approx(stats.wilcoxon(ours - theirs).pvalue)  # the only test
    assert change.reward.low <= change.reward.value <= change.reward.high


def test_noise_is_called_noise_and_a_gain_a_gain(side):
    labels, rng = side.labels, np.random.default_rng(3)
    best = rewards(labels, 0.3)[:, labels.columns_of(labels.router_arms)].argmax(axis=1)
    best = labels.columns_of(labels.router_arms)[best]
    compared = compare_runs(side, with_router(side, best))
    assert change_of(compared, "router", 0.3).verdict == "better"
    text = write_comparison(compared)
    assert "router at λ = 0.3 is better by +" in text
    back = compare_runs(with_router(side, best), side)
    assert change_of(back, "router", 0.3).verdict == "worse"
    wrong = [rng.random(len(best)) < 0.3 for _ in range(2)]
    one, other = (with_router(side, np.where(flip, 0, best)) for flip in wrong)
    compared = compare_runs(one, other)
    assert change_of(compared, "router", 0.3).verdict == "within noise"
    assert "No change is more than noise" in write_comparison(compared)


def test_a_static_arm_that_got_slower_is_worse_and_the_machine_is_named(side):
    slower = side.labels.latency_ms.copy()
    slower[:, 3] *= 2
    manifest = {**side.labels.manifest, "latency_measured_on": [{"cpu": "another"}]}
    labels = replace(side.labels, latency_ms=slower, manifest=manifest)
    compared = compare_runs(side, Side("b", labels, side.decisions))
    change = change_of(compared, "static:text_rerank", 0.3)
    assert change.verdict == "worse" and change.quality.value == 0.0
    test = side.labels.splits == "test"
    assert change.latency_ms.value == pytest.approx(side.labels.latency_ms[test, 3].mean())
    assert change_of(compared, "static:text_rerank", 0.0).verdict == "the same"
    assert "different machines" in write_comparison(compared)


def test_what_only_one_side_has_is_named(run, side, tmp_path):
    world = make_world(n=380)
    labels_folder, router = write_suite(
        tmp_path, replace(world, router_arms=("bm25", "text_rerank"))
    )
    labels = read_labels(labels_folder)
    table = suite_decisions(labels, lams=(0.3, 0.7))
    kept = pc.invert(pc.equal(table["policy"], "tfidf"))
    write_decisions(table.filter(kept), router / "decisions.parquet")
    compared = compare_runs(side, open_side(tmp_path))
    only = {one.what: (one.in_a, one.in_b) for one in compared.only}
    assert "q000399 of" in only["queries"][0][-1]
    assert only["router arms"] == (("text_dense",), ())
    assert only["λ"] == (("0",), ("0.7",))
    assert only["policies"] == (("tfidf",), ("router_lora",))  # which A has at λ = 0 alone
    assert {change.lam for change in compared.changes} == {0.3}
    text = write_comparison(compared)
    assert "λ only in A: 0; only in B: 0.7." in text.replace("Λ", "λ")
    assert "Router arms only in A: text\\_dense" in text or "only in A: text_dense" in text
    assert "normalised over the arms that both routers may choose (bm25, text_rerank)" in text


def test_failed_and_retexted_and_moved_queries_leave_the_comparison(side):
    labels = side.labels
    test = np.flatnonzero(labels.splits == "test")
    status, groups, splits = labels.status.copy(), labels.text_groups.copy(), labels.splits.copy()
    status[test[0], 1] = "error"
    groups[test[1]] = "another"
    splits[test[2]] = "train"
    table = side.decisions.to_pandas()
    moved = table["query_id"].eq(labels.query_ids[test[2]]) & table["split"].eq("test")
    decisions = pa.Table.from_pandas(table[~moved], preserve_index=False)
    other = replace(labels, status=status, text_groups=groups, splits=splits)
    compared = compare_runs(side, Side("b", other, decisions))
    assert compared.n == len(test) - 3
    notes = " ".join(compared.notes)
    for why in ("an arm failed on them in b", "their text isn't the same", "they are test"):
        assert f"1 shared queries are left out: {why}" in notes


def test_nonsense_is_refused(side, tmp_path):
    def other(**changes):
        return Side("b", replace(side.labels, **changes), side.decisions)

    manifest = {**side.labels.manifest, "measures": ["RR@5", "nDCG@5", "R@5"]}
    with pytest.raises(LabelsError, match="can't be compared"):
        compare_runs(side, other(manifest=manifest))
    with pytest.raises(LabelsError, match="no arm is a router's choice on both sides"):
        compare_runs(side, other(router_arms=("text_late",)))
    names = np.array([f"x{name}" for name in side.labels.datasets], dtype=object)
    with pytest.raises(LabelsError, match="share no query"):
        compare_runs(side, other(datasets=names))
    splits = np.full(len(side.labels.splits), "train", dtype=object)
    with pytest.raises(LabelsError, match="none is left to compare"):
        compare_runs(side, other(splits=splits))
    none = side.decisions.filter(pc.equal(side.decisions["lam"], 0.0))
    kept = side.decisions.filter(pc.equal(side.decisions["lam"], 0.3))
    with pytest.raises(LabelsError, match=r"λ of A: 0; of B: 0\.3"):
        compare_runs(Side("a", side.labels, none), Side("b", side.labels, kept))


def test_a_run_its_report_and_a_bare_folder_are_found(run, tmp_path):
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (folder / "report").mkdir()
    record = folder / "report" / "report.json"
    record.write_text("{}")
    expected = open_side(folder).labels.query_ids.tolist()
    assert open_side(folder / "report").labels.query_ids.tolist() == expected
    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "report.json"
    places = {"labels": "../run/labels", "decisions": "../run/router/decisions.parquet"}
    moved.write_text(json.dumps(places))
    assert open_side(tmp_path / "elsewhere").labels.query_ids.tolist() == expected
    shutil.copy(folder / "router" / "decisions.parquet", folder / "labels")
    assert open_side(folder / "labels").labels.query_ids.tolist() == expected
    record.write_text(json.dumps({"test_queries": 1, "test_queries_left_out": 0}))
    with pytest.raises(SettingsError, match="changed since: rerun l2r report"):
        open_side(folder / "report")
    record.write_text("{")
    with pytest.raises(SettingsError, match=r"report\.json is damaged"):
        open_side(folder / "report")
    for wrong, told in ((tmp_path / "absent", "is no folder"), (tmp_path, "expected a run's")):
        with pytest.raises(SettingsError, match=told):
            open_side(wrong)


def test_the_same_comparison_gives_the_same_files(side, tmp_path):
    columns = np.zeros(len(side.labels.query_ids), dtype=int)
    compared = compare_runs(side, with_router(side, columns))
    again = compare_runs(side, with_router(side, columns))
    table = save_comparison(compared, tmp_path / "one.md")
    other = save_comparison(again, tmp_path / "two.md")
    assert table.read_bytes() == other.read_bytes()
    assert (tmp_path / "one.md").read_bytes() == (tmp_path / "two.md").read_bytes()
    lines = table.read_text().splitlines()
    assert len(lines) == len(compared.changes) + 1 and lines[0].startswith("policy,lam,queries")
