import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from arms.errors import LabelsError
from arms.settings import ArmSettings
from oracle.labels import read_labels
from oracle.redact import attach_texts, export_without_text
from oracle.runner import run_oracle
from oracle.settings import LatencySettings, OracleSettings
from tests.oracle.fakes import dataset

SUITE = [dataset("one", word="secretword"), dataset("two", word="secretword")]
TEXTS = {(one.name, query.query_id): query.text for one in SUITE for query in one.queries}


@pytest.fixture
def labels_folder(tmp_path, fake_arms):
    arms = (ArmSettings(arm="fake", options={"fail_on": "secretword 2 "}),)
    settings = OracleSettings(latency=LatencySettings(threads=1))
    run_oracle(SUITE, arms, tmp_path / "index", tmp_path / "labels", settings)
    return tmp_path / "labels"


def test_no_text_leaves_and_everything_else_does(labels_folder, tmp_path):
    target = tmp_path / "out"
    export_without_text(labels_folder, target)
    assert sorted(path.name for path in target.iterdir()) == [
        "labels.parquet", "manifest.json", "queries.parquet",
    ]  # fmt: skip
    for path in target.iterdir():
        if path.suffix == ".parquet":
            assert b"secretword" not in path.read_bytes()
    full, bare = read_labels(labels_folder), read_labels(target)
    assert bare.texts is None
    assert bare.query_ids.tolist() == full.query_ids.tolist()
    assert bare.text_groups.tolist() == full.text_groups.tolist()
    assert np.array_equal(bare.status, full.status)
    assert np.array_equal(bare.latency_ms, full.latency_ms, equal_nan=True)
    assert np.array_equal(bare.quality["R@5"], full.quality["R@5"], equal_nan=True)
    assert "text" in json.loads((target / "manifest.json").read_text())["withheld"]


def test_texts_come_back(labels_folder, tmp_path):
    export_without_text(labels_folder, tmp_path / "out")
    bare = read_labels(tmp_path / "out")
    assert attach_texts(bare, TEXTS).texts.tolist() == read_labels(labels_folder).texts.tolist()


def test_absent_and_other_texts_are_refused(labels_folder):
    labels = read_labels(labels_folder)
    with pytest.raises(LabelsError, match="12 of 24 labelled queries have no text"):
        attach_texts(labels, {key: text for key, text in TEXTS.items() if key[0] == "one"})
    with pytest.raises(LabelsError, match="1 of 24 queries have another text"):
        attach_texts(labels, {**TEXTS, ("one", "q03"): "something else"})


def test_groups_that_a_dataset_names_are_kept_and_not_taken_for_hashes(tmp_path, fake_arms):
    suite = tuple(
        replace(one, queries=tuple(
            replace(query, metadata={"split_group": f"g{row % 4}"})
            for row, query in enumerate(one.queries)
        ))
        for one in SUITE
    )  # fmt: skip
    arms, settings = (ArmSettings(arm="fake"),), OracleSettings(latency=LatencySettings(threads=1))
    run_oracle(suite, arms, tmp_path / "index", tmp_path / "labels", settings)
    labels = read_labels(tmp_path / "labels")
    assert set(labels.text_groups) == {f"{one.name}/g{row}" for one in suite for row in range(4)}
    export_without_text(tmp_path / "labels", tmp_path / "out")
    bare = read_labels(tmp_path / "out")
    assert attach_texts(bare, TEXTS).texts.tolist() == labels.texts.tolist()


def test_incomplete_labels_are_refused(labels_folder, tmp_path):
    (labels_folder / "manifest.json").unlink()
    with pytest.raises(LabelsError, match="absent or unfinished"):
        export_without_text(labels_folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rankings_stay_where_asked_for(labels_folder, tmp_path):
    target = tmp_path / "out"
    export_without_text(labels_folder, target, rankings_of=["fake"], depth=2)
    full = pq.read_table(labels_folder / "runs.parquet", filters=[("rank", "<=", 2)])
    kept = pq.read_table(target / "runs.parquet")
    assert 0 < kept.num_rows == full.num_rows
    same = [name for name in full.column_names if name != "score"]
    assert kept.select(same).equals(full.select(same))
    assert np.allclose(kept["score"].to_numpy(), full["score"].to_numpy(), rtol=1e-6)
    withheld = json.loads((target / "manifest.json").read_text())["withheld"]
    assert "runs of other arms than fake, and below rank 2" in withheld
    export_without_text(labels_folder, target)
    assert not (target / "runs.parquet").exists()
    with pytest.raises(LabelsError, match="no ranking of other"):
        export_without_text(labels_folder, target, rankings_of=["fake", "other"])
