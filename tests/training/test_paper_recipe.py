"""The paper's recipe on tiny local copies of its eleven datasets, laid out as published."""

import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import l2r
from arms.catalogue import spec_of
from arms.corpora import sources
from arms.corpora.reader import read_dataset
from oracle.labels import read_labels
from oracle.runner import run_oracle
from oracle.settings import OracleSettings
from tests.arms.corpora.page_files import words, write_pdf

RECIPE = Path(__file__).parent.parent.parent / "training" / "recipes" / "paper.yaml"
N_PAGES = 5
NAMES = (
    *("FinReport", "FinSlides"),
    *("FinQA", "ConvFinQA", "TAT-DQA", "VQAonBD"),
    *("ArxivQA", "Wiki-SS", "MP-DocVQA", "SciQAG", "DUDE"),
)


def png(number: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (20, 30), (number, 0, 0)).save(stream, format="PNG")
    return stream.getvalue()


def write_parquet(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_lines(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_real_mm_rag(folder: Path) -> None:
    pages = [
        {"corpus-id": n, "image": {"bytes": png(n), "path": f"{n}.png"},
         "image_filename": f"{n}.png", "doc-id": "report"}
        for n in range(N_PAGES)
    ]  # fmt: skip
    asked = [
        {"query-id": n, "query": f"margin {n}?", "rephrase_level_1": "?", "language": "en"}
        for n in range(N_PAGES)
    ]
    judged = [{"query-id": n, "corpus-id": n, "answer": "1", "score": 1} for n in range(N_PAGES)]
    for name, rows in (("corpus", pages), ("queries", asked), ("qrels", judged)):
        write_parquet(folder / name / "test-00000-of-00001.parquet", rows)


def write_t2_ragbench(folder: Path) -> None:
    for part in ("FinQA/train", "FinQA/dev", "ConvFinQA", "TAT-DQA/test"):
        here = folder / "data" / part
        rows = []
        for n in range(N_PAGES):
            name = f"{part.replace('/', '_')}_{n}.pdf"
            write_pdf(here / name, words(f"Revenue of year {n} grew."))
            rows.append({
                "id": f"{part}-{n}", "context_id": f"{part}-c{n}", "split": part.split("/")[-1],
                "question": f"How much did revenue of {part} grow in year {n}?",
                "program_answer": "1.0", "original_answer": "1", "file_name": name,
                "context": f"Revenue of year {n}.\n| a | b |\n| 1 | {n} |", "page_number": 40,
            })  # fmt: skip
        write_lines(here / "metadata.jsonl", rows)


def write_rows(folder: Path) -> None:
    rows = [
        {"query": f"What is {n}?", "image": {"bytes": png(n % 3), "path": None},
         "image_filename": f"raw/{n % 3}.png"}
        for n in range(N_PAGES)
    ]  # fmt: skip
    write_parquet(folder / "data" / "test-00000-of-00001.parquet", rows)


def write_mmdocir(folder: Path) -> None:
    for name in ("ArxivQA", "Wiki-ss", "MP-DocVQA", "SciQAG", "DUDE_long", "SlideVQA"):
        pages = [
            {"file_name": name, "page": n, "image": png(n), "page_size": [20, 30], "layouts": "[]"}
            for n in range(N_PAGES)
        ]
        write_parquet(folder / "parquet" / f"{name}_filter.parquet", pages)
        asked = [
            {"query_id": n, "query": f"{name} {n}?",
             "positive_passages": [{"doc_name": name, "page_id": n}],
             "negative_passages": [{"doc_name": name, "page_id": (n + 1) % N_PAGES}]}
            for n in range(N_PAGES)
        ]  # fmt: skip
        write_lines(folder / "annotations_top1_negative" / f"{name}_train.jsonl", asked)


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))
    made = {
        "ibm-research/REAL-MM-RAG_FinReport_BEIR": write_real_mm_rag,
        "ibm-research/REAL-MM-RAG_FinSlides_BEIR": write_real_mm_rag,
        "G4KMU/t2-ragbench": write_t2_ragbench,
        "emrekuruu/VQAonBD": write_rows,
        "MMDocIR/MMDocIR_Train_Dataset": write_mmdocir,
    }

    def local(named: str, patterns) -> Path:
        folder = tmp_path / named.replace("/", "--")
        if not folder.exists():
            made[named](folder)
        unmatched = [one for one in patterns if not any(folder.rglob(one.rpartition("/")[2]))]
        assert not [one for one in unmatched if one.endswith(("parquet", "jsonl")) and "/" in one]
        return folder

    monkeypatch.setattr(sources, "download", local)
    return l2r.read_run(RECIPE)


def test_the_eleven_datasets_read_in_their_published_layout(run):
    assert tuple(one.dataset_name for one in run.corpus) == NAMES
    for settings in run.corpus:
        dataset = read_dataset(settings)
        documents = {document.doc_id: document for document in dataset.corpus}
        assert dataset.dropped == {}, settings.dataset_name
        assert len(dataset.queries) >= N_PAGES
        assert all(len(document.pages) == 1 for document in documents.values())
        assert all(
            set(dataset.qrels[query.query_id]) <= set(documents) for query in dataset.queries
        )
        with_text = settings.hub == "G4KMU/t2-ragbench"
        assert all(bool(document.text) == with_text for document in documents.values())


def test_arms_are_the_papers_seven_and_the_router_acts_on_five(run):
    specs = [spec_of(arm) for arm in run.arms]
    assert [spec.name for spec in specs] == [
        "bm25",
        *(
            f"{modality}_{kind}"
            for modality in ("text", "mm")
            for kind in ("dense", "late", "rerank")
        ),
    ]
    assert set(run.oracle.router_arms) == {
        "bm25", "text_dense", "text_rerank", "mm_dense", "mm_rerank"
    }  # fmt: skip
    assert run.training.encoder == "Qwen/Qwen3-0.6B-Base"


def test_the_oracle_runs_over_the_tiny_copies(run, tmp_path):
    text = [read_dataset(one) for one in run.corpus if one.hub == "G4KMU/t2-ragbench"]
    settings = OracleSettings(latency={"sample": 3, "repeats": 1, "warm_up": 1})
    run_oracle(text, run.arms[:1], tmp_path / "index", tmp_path / "labels", settings, seed=1)
    labels = read_labels(tmp_path / "labels")
    assert set(labels.datasets) == {"FinQA", "ConvFinQA", "TAT-DQA"}
    assert (labels.status == "ok").all()
