from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from arms.errors import SettingsError
from oracle.labels import read_labels
from router.decisions import read_decisions
from tests.training.graded import graded_labels
from tests.training.synthetic import write_labels
from training.document_folds import decided_again, document_folds, split_warnings
from training.settings import TrainingSettings
from training.table import routing_table
from training.train_routers import train_routers


def regroup(folder, documents):
    """Let query n of each labels folder be in the document group ``documents(n)``."""
    queries = pq.read_table(folder / "queries.parquet").to_pydict()
    count = len(queries["query_id"])
    queries["document_group"] = [documents(n) for n in range(count)]
    pq.write_table(pa.table(queries), folder / "queries.parquet")
    return folder


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """Sixty queries of two datasets, three and three of which share documents."""
    folder = write_labels(tmp_path_factory.mktemp("grouped") / "labels", count=60)
    return read_labels(regroup(folder, lambda n: f"document {n // 3}"))


def folds_of(labels, **settings):
    table = routing_table(labels, labels.router_arms)
    return document_folds(labels, table, TrainingSettings(**settings))


def test_queries_of_one_document_share_a_fold(grouped):
    folds = folds_of(grouped)
    assert set(folds) == {0, 1, 2, 3, 4}
    of_group = {}
    for key, fold in zip(
        zip(grouped.datasets, grouped.document_groups, strict=True), folds, strict=True
    ):
        assert of_group.setdefault(key, fold) == fold
    assert set(folds_of(grouped, document_folds=2, cross_validation_folds=0)) == {0, 1}


def test_there_are_none_where_they_tell_nothing_new(grouped, tmp_path):
    assert folds_of(grouped, document_folds=0) is None
    assert folds_of(grouped, cross_validation_folds=0) is None
    plain = read_labels(write_labels(tmp_path / "plain", count=20))
    assert folds_of(plain) is None  # every query is a group of its own
    unjudged = read_labels(regroup(write_labels(tmp_path / "none", count=20), lambda n: None))
    assert folds_of(unjudged, document_folds=3) is None
    by_document = routing_table(grouped, grouped.router_arms, split="document")
    assert document_folds(grouped, by_document, TrainingSettings()) is None


def test_more_folds_than_groups_are_refused(grouped):
    with pytest.raises(SettingsError, match=r"training\.document_folds is 50"):
        folds_of(grouped, document_folds=50)
    with pytest.raises(ValueError, match="document_folds must be auto or at least 0, got -1"):
        TrainingSettings(document_folds=-1)


def policies(**learns):
    return {
        name: SimpleNamespace(learns_documents=one, query_dependent=name != "tuned_fusion")
        for name, one in learns.items()
    }


def test_the_default_is_decided_beside_policies_that_learn_about_documents():
    settings = TrainingSettings()
    learned = policies(router=False, merging=True, knn=False, probing=True, tuned_fusion=False)
    assert set(decided_again(learned, ["router_quality"], settings)) == {
        "router_quality", "probing", "merging", "tuned_fusion",
    }  # fmt: skip
    assert decided_again(policies(router=False, knn=False), ["router_quality"], settings) == ()
    assert decided_again(policies(router=True, knn=False), ["merging"], settings) == ("merging",)


def test_a_looser_split_than_documents_is_warned_of(grouped):
    said = split_warnings(grouped, policies(router=False, merging=True, probing=True))
    assert len(said) == 1
    assert said[0].startswith("merging, probing: what they know of documents")
    assert split_warnings(grouped, policies(router=False)) == []
    grouped.manifest["split"] = {"by": "document", "fallbacks": {}}
    try:
        assert split_warnings(grouped, policies(merging=True)) == []
    finally:
        del grouped.manifest["split"]


def test_training_decides_once_more_on_document_folds(tiny_bert, tmp_path):
    labels = regroup(graded_labels(tmp_path / "labels", count=120), lambda n: f"x{n // 4}")
    settings = TrainingSettings(
        lams=(0.0,),
        policies=("router_conditioned", "merging"),
        encoder=str(tiny_bert),
        cross_validation_folds=2,
        frozen={"epochs": 1},
        conditioned={"epochs": 1},
    )
    record = train_routers(labels, None, tmp_path / "router", settings)
    assert any(one.startswith("merging: what they know") for one in record.warnings)
    decisions = read_decisions(tmp_path / "router" / "decisions.parquet").to_pandas()
    held_out = decisions[decisions["split"].str.startswith("doc")]
    assert set(held_out["split"]) == {"doc0", "doc1"}
    learned = {"merging", "router", "router_conditioned"} & set(held_out["policy"])
    assert "merging" in learned and learned - {"merging"}
    assert "router_per_lam" not in set(held_out["policy"])
    merged = held_out[held_out["policy"] == "merging"]
    assert len(merged) == 120
    found = read_labels(labels)
    split_of = dict(zip(merged["query_id"], merged["split"], strict=True))
    of_group = {}
    groups = zip(found.datasets, found.document_groups, strict=True)
    for query_id, key in zip(found.query_ids, groups, strict=True):
        assert of_group.setdefault(key, split_of[query_id]) == split_of[query_id]
    assert np.isfinite(merged["answer:nDCG@5"].dropna()).all()
