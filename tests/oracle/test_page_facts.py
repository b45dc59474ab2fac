import pyarrow.parquet as pq
import pytest

from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.errors import LabelsError
from arms.records import Document, Page, Query
from arms.settings import ArmSettings
from oracle.labels import read_labels
from oracle.page_facts import page_kind, visual_densities
from oracle.redact import export_without_text
from oracle.release.licences import Licence
from oracle.release.verify import verify_release
from oracle.release.write import release_labels
from oracle.runner import run_oracle
from oracle.settings import OracleSettings
from tests.oracle.fakes import dataset, register


def page(density) -> Page:
    return Page("a.pdf", 1, "0" * 64, visual_density=density)


def pages_dataset() -> Dataset:
    documents = [
        Document("a", "", "alpha", pages=(page(0.2), page(0.6))),
        Document("b", "", "beta", pages=(page(None),)),
        Document("c", "", "gamma", pages=(page(1.0),)),
        Document("d", "", "delta"),
    ]
    queries = (
        Query("q1", "first", {"page_kind": "chart", "evidence_sources": ["Table"]}),
        Query("q2", "second", {"evidence_sources": ["Table", "Chart", "Table"]}),
        Query("q3", "third", {"evidence_sources": []}),
        Query("q4", "fourth"),
    )
    qrels = {
        "q1": {"a": 1, "d": 1},
        "q2": {"a": 2, "c": 1, "b": 1},
        "q3": {"b": 1, "c": 0},
        "q4": {"d": 1},
    }
    return Dataset("pages", MemoryCorpus("pages", documents), queries, qrels)


def test_density_is_the_mean_over_relevant_pages_whose_density_is_known():
    found = visual_densities(pages_dataset(), ["q1", "q2", "q3", "q4"])
    assert found == [pytest.approx(0.4), pytest.approx(0.6), None, None]


def test_kind_comes_from_metadata_several_sources_joined():
    kinds = [page_kind(query) for query in pages_dataset().queries]
    assert kinds == ["chart", "Chart + Table", "", ""]
    assert page_kind(Query("q", "t", {"page_kind": 3, "evidence_sources": "Figure "})) == "Figure"


@pytest.fixture
def labels(tmp_path, monkeypatch):
    register(monkeypatch)
    suite = [dataset("plain", n_queries=6), pages_dataset()]
    settings = OracleSettings(latency={"sample": 4, "repeats": 1, "warm_up": 1})
    folder = tmp_path / "labels"
    run_oracle(suite, [ArmSettings(arm="fake")], tmp_path / "index", folder, settings, seed=1)
    return folder


def rows_of(folder):
    table = pq.read_table(folder / "queries.parquet")
    return {row["query_id"]: row for row in table.to_pylist() if row["dataset"] == "pages"}


def test_queries_carry_both_columns_and_so_do_copies_and_releases(labels, tmp_path):
    rows = rows_of(labels)
    assert rows["q1"]["visual_density"] == pytest.approx(0.4)
    assert rows["q4"]["visual_density"] is None
    assert [rows[f"q{n}"]["page_kind"] for n in (1, 2, 4)] == ["chart", "Chart + Table", ""]
    export_without_text(labels, tmp_path / "copy")
    assert rows_of(tmp_path / "copy")["q2"]["page_kind"] == "Chart + Table"
    release_labels(labels, tmp_path / "out", Licence("cc0-1.0"), with_runs=False)
    assert rows_of(tmp_path / "out")["q2"]["visual_density"] == pytest.approx(0.6)
    assert verify_release(tmp_path / "out") == []


def test_labels_without_the_columns_still_read_and_release(labels, tmp_path):
    path = labels / "queries.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["visual_density", "page_kind"]), path)
    assert len(read_labels(labels).query_ids) == 10
    release_labels(labels, tmp_path / "out", Licence("cc0-1.0"), with_runs=False)
    assert "page_kind" not in rows_of(tmp_path / "out")["q1"]


def test_a_density_outside_its_range_is_a_fault(labels, tmp_path):
    path = labels / "queries.parquet"
    table = pq.read_table(path)
    values = [1.5] + [None] * (len(table) - 1)
    place = table.column_names.index("visual_density")
    changed = table.set_column(place, table.field("visual_density"), [values])
    pq.write_table(changed, path)
    with pytest.raises(LabelsError, match=r"outside \[0, 1\]"):
        release_labels(labels, tmp_path / "out", Licence("cc0-1.0"), with_runs=False)
