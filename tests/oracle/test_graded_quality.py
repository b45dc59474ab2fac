"""Relevant grades: what the oracle writes, who carries them, and that every contradiction shows."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from arms.settings import ArmSettings
from oracle.labels import read_labels
from oracle.quality import quality_of_grades
from oracle.redact import export_without_text
from oracle.release.verify import verify_release
from oracle.release.write import release_labels
from oracle.runner import run_oracle
from oracle.settings import LatencySettings, OracleSettings
from tests.oracle import fakes
from tests.oracle.test_release import LICENCE, edit_json, edit_table, faults_of, sign, with_cell

MEASURES = ("nDCG@3", "RR@5", "R@5", "P@5", "AP", "Success@1")
ARMS = (ArmSettings(arm="fake"), ArmSettings(arm="fake_b", options={"fail_on": "query 3 "}))


@pytest.fixture(scope="module")
def labels_folder(tmp_path_factory):
    """Two datasets of eight documents, of which each arm keeps five; a failure and empty lists."""
    folder = tmp_path_factory.mktemp("oracle")
    arms = (*ARMS, ArmSettings(arm="fake_late", options={"empty_on": "query 5 "}))
    settings = OracleSettings(k=5, measures=MEASURES, latency=LatencySettings(threads=1))
    with pytest.MonkeyPatch.context() as patch:
        fakes.register(patch)
        suite = [fakes.dataset("beta"), fakes.dataset("alpha", n_queries=7)]
        run_oracle(suite, arms, folder / "index", folder / "labels", settings)
    return folder / "labels"


@pytest.fixture(scope="module")
def sound(labels_folder, tmp_path_factory):
    target = tmp_path_factory.mktemp("release") / "out"
    release_labels(labels_folder, target, LICENCE)
    return target


@pytest.fixture
def release(sound, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(sound, tmp_path / "out"))


def faults_after(release, table, column, row, value):
    edit_table(release / f"{table}.parquet", with_cell(column, row, value))
    sign(release)
    return faults_of(release)


def rows_of(release, table):
    return pq.read_table(release / f"{table}.parquet").to_pylist()


def ranking_of(release, label):
    key = ("dataset", "query_id", "arm")
    runs = rows_of(release, "runs")
    return [row for row, one in enumerate(runs) if all(one[name] == label[name] for name in key)]


def test_the_labels_alone_give_every_quality(labels_folder):
    labels = read_labels(labels_folder)
    assert labels.relevant_grades.tolist() == [(2, 1)] * 19
    rankings = {}
    for one in pq.read_table(labels_folder / "runs.parquet").to_pylist():
        key = (one["dataset"], one["query_id"], one["arm"])
        rankings.setdefault(key, []).append(one["grade"])
    cells = np.argwhere(np.isin(labels.status, ("ok", "empty"))).tolist()
    keys = [
        (labels.datasets[row], labels.query_ids[row], labels.pipelines[column])
        for row, column in cells
    ]
    found = quality_of_grades(
        [rankings.get(key, []) for key in keys],
        [labels.relevant_grades[row] for row, _ in cells],
        MEASURES,
    )
    assert len(cells) == 3 * 19 - 2
    for measure in MEASURES:
        stated = [labels.quality[measure][row, column] for row, column in cells]
        assert found[measure].tolist() == stated
        assert len(set(stated)) > 1


def test_they_are_released_described_and_exported(labels_folder, sound, tmp_path):
    assert verify_release(sound) == []
    assert read_labels(sound).relevant_grades.tolist() == [(2, 1)] * 19
    row = json.loads((sound / "schema.json").read_text())["$defs"]["queries"]["properties"]
    assert row["relevant_grades"]["type"] == ["array", "null"]
    assert row["relevant_grades"]["items"] == {"type": "integer", "minimum": 1}
    assert "| `relevant_grades` | list<item: int32> |" in (sound / "README.md").read_text()
    export_without_text(labels_folder, tmp_path / "bare", ["fake"], depth=3)
    assert read_labels(tmp_path / "bare").relevant_grades.tolist() == [(2, 1)] * 19


def test_labels_without_them_are_read_and_released(labels_folder, tmp_path):
    older = Path(shutil.copytree(labels_folder, tmp_path / "older"))
    edit_table(older / "queries.parquet", lambda one: one.drop_columns(["relevant_grades"]))
    assert read_labels(older).relevant_grades is None
    release_labels(older, tmp_path / "out", LICENCE)
    assert verify_release(tmp_path / "out") == []
    assert "relevant_grades" not in (tmp_path / "out" / "README.md").read_text()
    edit_json(tmp_path / "out" / "manifest.json", lambda one: one["release"].pop("relevant_grades"))
    sign(tmp_path / "out")
    assert verify_release(tmp_path / "out") == []  # as releases were before there was the column


@pytest.mark.parametrize("measure", MEASURES)
def test_a_quality_that_the_grades_do_not_give_is_named(release, measure):
    labels = rows_of(release, "labels")
    row = next(row for row, one in enumerate(labels) if (one[measure] or 0) > 0.1)
    one = labels[row]
    name = ", ".join(one[key] for key in ("dataset", "query_id", "arm"))
    changed = one[measure] - 0.05
    assert faults_after(release, "labels", measure, row, changed) == [
        f"labels.parquet: value: {measure} isn't what the grades of the ranking and "
        f"relevant_grades give: row {row + 1} ({name}: {changed:.6g}, by the grades "
        f"{one[measure]:.6g})"
    ]
    assert faults_after(release, "labels", measure, row, one[measure] - 1e-9) == []


def test_relevant_grades_that_are_none_are_named(release):
    for row, grades in enumerate([[1, 2], [2, 0], [2, None], [2, 2000], [-1], [], None]):
        edit_table(release / "queries.parquet", with_cell("relevant_grades", row, grades))
    sign(release)
    found = [one for one in faults_of(release) if one.startswith("queries")]
    other, order, *of_ids = found
    assert all("relevant_ids" in one for one in of_ids)
    assert "else than grades from 1 to 1000: row 2 (alpha, q01, [2, 0]), row 3" in other
    assert "and 1 more" in other
    assert order.endswith("isn't in descending order: row 1 (alpha, q00, [1, 2])")


def test_grades_that_the_query_lacks_are_named_with_other_faults(release):
    label = next(one for one in rows_of(release, "labels") if one["status"] == "ok")
    rows, runs = ranking_of(release, label), rows_of(release, "runs")
    unseen = next(row for row in rows if runs[row]["grade"] == 0)
    name = ", ".join(label[key] for key in ("dataset", "query_id", "arm"))
    faults = faults_after(release, "runs", "grade", unseen, 3)
    told = "runs.parquet: value: the ranking has grades above 0 that relevant_grades of its query "
    assert f"{told}lacks: row {rows[0] + 1} ({name}: 3 beyond [2, 1])" in faults
    faults = faults_after(release, "labels", "RR@5", 0, 2.0)
    assert [one for one in faults if "lacks" in one]
    assert [one for one in faults if "RR@5 lies outside [0, 1]" in one]


def test_only_what_a_measure_looks_at_must_be_held(release):
    """A cut ranking tells nDCG@3 but neither R@5 nor AP; one cut before the labels tells all."""
    label = next(
        one for one in rows_of(release, "labels") if one["status"] == "ok" and one["AP"] > 0
    )
    row = rows_of(release, "labels").index(label)
    last = ranking_of(release, label)[3:]
    keep = [one for one in range(len(rows_of(release, "runs"))) if one not in last]
    edit_table(release / "runs.parquet", lambda runs: runs.take(keep))
    edit_json(
        release / "manifest.json",
        lambda one: (
            one["release"]["rows"].update(runs=len(keep)),
            one.update(withheld=["failures", "runs below rank 3"]),
        ),
    )
    for measure, seen in (("nDCG@3", True), ("Success@1", True), ("R@5", False), ("AP", False)):
        changed = abs(label[measure] - 0.01)
        faults = faults_after(release, "labels", measure, row, changed)
        assert any(one.startswith(f"labels.parquet: value: {measure}") for one in faults) == seen
        faults_after(release, "labels", measure, row, label[measure])
    assert faults_of(release) == []
    first = ranking_of(release, label)[0]
    assert faults_after(release, "runs", "grade", first, None) == []
    assert faults_after(release, "labels", "nDCG@3", row, 0.01) == []


def test_measures_that_trec_eval_dies_of_are_not_computed(release):
    def rename(table):
        return table.rename_columns(["AP@0" if one == "AP" else one for one in table.column_names])

    edit_table(release / "labels.parquet", rename)
    edit_json(release / "manifest.json", lambda one: one["measures"].__setitem__(4, "AP@0"))
    sign(release)
    assert [one for one in faults_of(release) if not one.startswith("schema.json")] == []
