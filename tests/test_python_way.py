"""The way through the whole project in Python: label, train, select, report; and the notebook."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from analysis import report
from arms import read_corpus
from arms.errors import LabelsError, SettingsError
from oracle import label, read_labels
from oracle.labels import Labels, folder_of
from router import Router
from tests.small_corpus import write_small_corpus
from training import train

ROOT = Path(__file__).parent.parent
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
QUICK = {"policies": ["tfidf"], "router": "tfidf", "cross_validation_folds": 0}


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Labels:
    folder = tmp_path_factory.mktemp("way")
    corpus = read_corpus(write_small_corpus(folder / "c"), progress=False)
    arms = ["bm25", {"arm": "bm25", "granularity": "paragraph"}]
    return label(corpus, arms, folder / "runs" / "labels", progress=False, latency={"sample": 5})


def test_objects_say_what_they_are(labels: Labels) -> None:
    assert repr(read_corpus(folder_of(labels).parent.parent / "c", name="<c>")) == (
        "Dataset '<c>': 60 documents, 120 queries, 120 of them judged"
    )
    assert repr(labels) == (
        f"Labels in {labels.folder}: 120 queries of c; arms bm25, bm25@paragraph; measures "
        "nDCG@5, RR@5, R@5"
    )
    assert "<td>bm25@paragraph</td>" in labels._repr_html_()


def test_labels_are_a_table_with_a_row_per_query_and_arm(labels: Labels) -> None:
    pytest.importorskip("pandas")
    frame = labels.to_pandas()
    assert list(frame.columns) == [
        "dataset", "query_id", "split", "arm", "status", "nDCG@5", "RR@5", "R@5", "latency_ms",
    ]  # fmt: skip
    assert len(frame) == 240
    means = frame.groupby("arm", sort=False)["nDCG@5"].mean()
    np.testing.assert_allclose(means.to_numpy(), labels.quality["nDCG@5"].mean(axis=0))
    assert list(means.index) == list(labels.pipelines)


def test_the_same_labels_are_read_again(labels: Labels) -> None:
    written = (folder_of(labels) / "manifest.json").stat().st_mtime_ns
    corpus = read_corpus(folder_of(labels).parent.parent / "c", progress=False)
    arms = ["bm25", "bm25@paragraph"]  # a name may hold the granularity
    again = label(corpus, arms, folder_of(labels), progress=False, latency={"sample": 5})
    assert (folder_of(labels) / "manifest.json").stat().st_mtime_ns == written
    assert read_labels(folder_of(labels)).pipelines == again.pipelines


def test_a_router_is_trained_asked_and_reported(labels: Labels, tmp_path: Path) -> None:
    router = train(labels, [0.3, 0], folder_of(labels).parent / "router", progress=False, **QUICK)
    assert isinstance(router, Router)
    assert router.record.lams == (0.0, 0.3)
    assert repr(router).startswith(f"Router in {router.folder}: chooses among bm25, bm25@paragraph")
    choice = router.select("the garden of Oslo", lam=0.3)
    assert repr(choice).startswith(f"Choice: {choice.arm} at λ = 0.3, by router")
    assert f"<td>{choice.arm}</td>" in choice._repr_html_()
    found = router.search("the garden of Oslo", lam=0.3, k=2)
    assert repr(found).startswith("oslo-garden, ")
    assert "<td>oslo-garden</td>" in found._repr_html_()
    written = report(labels, router, tmp_path / "report", title="Ours <&>")
    assert repr(written).startswith(f"Report: {tmp_path / 'report' / 'index.html'} (")
    assert "Ours &amp;lt;&amp;amp;&amp;gt;" in written._repr_html_()


def test_wrong_settings_are_named_all_at_once(labels: Labels, tmp_path: Path) -> None:
    corpus = read_corpus(folder_of(labels).parent.parent / "c", progress=False)
    with pytest.raises(SettingsError, match=r"(?s)granularity.*unknown key 'option'"):
        label(corpus, ["bm25@line", {"arm": "bm25", "option": {}}], tmp_path / "labels")
    with pytest.raises(SettingsError, match=r"'train': lams: .*must lie in \[0, 1\]"):
        train(labels, [2.0], tmp_path / "router")
    with pytest.raises(SettingsError, match="unknown key 'language_'; did you mean 'language'"):
        read_corpus(tmp_path, language_="german")
    with pytest.raises(LabelsError):
        train(tmp_path / "nowhere", out=tmp_path / "router")
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    monkeypatch.setenv("PYTHONPATH", path)
    book = nbformat.read(NOTEBOOK, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=500, resources=resources).execute()
    last = book.cells[-1].outputs[-1]["data"]["text/html"]
    assert "srcdoc" in last
    assert "&lt;svg" in last
    assert all(not cell.get("outputs") for cell in json.loads(NOTEBOOK.read_text())["cells"])
