import base64
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from arms.corpora.pictures import load_picture
from arms.corpora.reader import read_dataset, read_documents
from arms.errors import CorpusError
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import jsonl
from tests.arms.corpora.page_files import words, write_pdf, write_picture


def png(colour, size=(6, 8)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, format="PNG")
    return stream.getvalue()


def write_parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def read(folder, **options):
    return read_dataset(DatasetSettings(path=folder, format="vidore", **options))


def beir_tables(folder):
    """The layout of vidore/*_beir: three configurations, integer ids, pictures as bytes."""
    pages = [
        {"corpus-id": number, "image": {"bytes": png((number, 0, 0)), "path": f"{number}.png"}}
        for number in range(40)
    ]
    write_parquet(folder / "corpus" / "test-00000-of-00002.parquet", pages[:20])
    write_parquet(folder / "corpus" / "test-00001-of-00002.parquet", pages[20:])
    asked = [{"query-id": 7, "query": "red?", "answer": "yes"}, {"query-id": 8, "query": "blue?"}]
    write_parquet(folder / "queries" / "test-00000-of-00001.parquet", asked)
    judged = [
        {"query-id": 7, "corpus-id": 3, "score": 2},
        {"query-id": 7, "corpus-id": 39, "score": 1},
        {"query-id": 8, "corpus-id": 4, "score": 1},
    ]
    write_parquet(folder / "qrels" / "test-00000-of-00001.parquet", judged)
    return folder


def test_corpus_queries_and_qrels_tables(tmp_path):
    dataset = read(beir_tables(tmp_path))
    documents = list(dataset.corpus)
    assert [document.doc_id for document in documents] == [str(number) for number in range(40)]
    assert load_picture(documents[39].pages[0]).getpixel((0, 0)) == (39, 0, 0)
    assert documents[0].pages[0].visual_density == 1
    assert [(query.query_id, query.text) for query in dataset.queries] == [
        ("7", "red?"),
        ("8", "blue?"),
    ]
    assert dataset.queries[0].metadata["answer"] == "yes"
    assert dataset.qrels == {"7": {"3": 2, "39": 1}, "8": {"4": 1}}


def test_pictures_lie_in_the_cache_once_per_content(tmp_path, own_cache):
    rows = [{"corpus-id": name, "image": {"bytes": png("red")}} for name in "ab"]
    write_parquet(tmp_path / "corpus.parquet", rows)
    corpus = read_documents(DatasetSettings(path=tmp_path, format="vidore"))
    assert len({document.pages[0].key for document in corpus}) == 1
    assert len(list(own_cache.rglob("*.png"))) == 1
    assert len(list(corpus)) == 2


def test_a_table_of_queries_with_their_pages(tmp_path):
    """The layout of the first ViDoRe sets: a page may serve several queries, or none."""
    rows = [
        {"query": "first?", "image": {"bytes": png("red")}, "image_filename": "r.png", "answer": 1},
        {
            "query": "second?",
            "image": {"bytes": png("red")},
            "image_filename": "r.png",
            "answer": 2,
        },
        {"query": None, "image": {"bytes": png("blue")}, "image_filename": "b.png", "answer": None},
    ]
    write_parquet(tmp_path / "data" / "test-00000-of-00001.parquet", rows)
    dataset = read(tmp_path)
    assert [document.doc_id for document in dataset.corpus] == ["r.png", "b.png"]
    assert dataset.qrels == {"q000001": {"r.png": 1}, "q000002": {"r.png": 1}}
    assert dataset.queries[1].metadata["answer"] == 2


@pytest.mark.parametrize(
    "image",
    [
        {"bytes": base64.b64encode(png("red")).decode(), "path": None},
        {"bytes": None, "path": "images/a.png"},
        "images/a.png",
        "data:image/png;base64," + base64.b64encode(png("red")).decode(),
    ],
)
def test_json_lines_hold_pictures_as_text_or_name_them(tmp_path, image):
    write_picture(tmp_path / "images" / "a.png", size=(6, 8), colour=(255, 0, 0))
    row = {"_id": "d", "text": "a page", "image": image}
    (tmp_path / "corpus.jsonl").write_bytes(jsonl([row]))
    (tmp_path / "queries.jsonl").write_bytes(jsonl([{"_id": "q", "text": "what?"}]))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    dataset = read(tmp_path)
    (document,) = dataset.corpus
    assert document.text == "a page"
    assert load_picture(document.pages[0]).getpixel((0, 0)) == (255, 0, 0)
    assert dataset.qrels == {"q": {"d": 1}}


def test_fields_may_be_columns_or_templates_and_judgements_stand_with_the_query(tmp_path):
    pages = [{"file_name": "doc", "page": n, "image": png((n, n, n))} for n in range(3)]
    write_parquet(tmp_path / "parquet" / "Set_filter.parquet", pages)
    asked = {"query_id": 1, "query": "which?", "positive_passages": [
        {"doc_name": "doc", "page_id": 2}, {"doc_name": "doc", "page_id": 0}
    ]}  # fmt: skip
    path = tmp_path / "annotations" / "Set_train.jsonl"
    path.parent.mkdir()
    path.write_bytes(jsonl([asked]))
    dataset = read(
        tmp_path,
        tables={"corpus": "parquet/Set_*.parquet", "queries": "annotations/Set_*.jsonl"},
        fields={
            "document_id": "{file_name}::p{page}",
            "positives": "positive_passages",
            "positive_id": "{doc_name}::p{page_id}",
        },
    )
    assert [document.doc_id for document in dataset.corpus] == ["doc::p0", "doc::p1", "doc::p2"]
    assert dataset.qrels == {"1": {"doc::p2": 1, "doc::p0": 1}}


def test_rows_may_name_pdfs_beside_their_table(tmp_path):
    write_pdf(tmp_path / "data" / "FinQA" / "dev" / "AB" / "page_3.pdf", words("numbers"))
    row = {"id": "x1", "context_id": "c1", "question": "how much?", "context": "| a |",
           "file_name": "AB/page_3.pdf"}  # fmt: skip
    again = {**row, "id": "x2", "question": "how little?"}
    (tmp_path / "data" / "FinQA" / "dev" / "metadata.jsonl").write_bytes(jsonl([row, again]))
    fields = {"query_id": "id", "pdf": "file_name"}
    dataset = read(tmp_path, tables={"rows": "data/FinQA/*/metadata.jsonl"}, fields=fields)
    (document,) = dataset.corpus
    assert (document.doc_id, document.text) == ("c1", "| a |")
    assert [page.number for page in document.pages] == [1]
    assert dataset.qrels == {"x1": {"c1": 1}, "x2": {"c1": 1}}


def test_everything_that_is_wrong_stands_in_one_report(tmp_path):
    beir_tables(tmp_path)
    noise = png("red") + b""
    bad = [
        {"corpus-id": "cut", "image": {"bytes": noise[: len(noise) // 2]}},
        {"corpus-id": "gone", "image": {"bytes": None, "path": "nowhere.png"}},
        {"corpus-id": "none", "image": None},
    ]
    write_parquet(tmp_path / "corpus" / "test-00003.parquet", bad)
    (tmp_path / "corpus" / "test-00004.parquet").write_bytes(b"PAR1 not really PAR1")
    (tmp_path / "corpus" / "test-00005.jsonl").write_bytes(b'{"_id": "t", "text": "ok"}\n{"_id":\n')
    write_parquet(tmp_path / "queries" / "test-00001.parquet", [{"id": 5, "wording": "x"}])
    with pytest.raises(CorpusError) as caught:
        read(tmp_path)
    message = str(caught.value)
    for line in (
        "unusable_picture (1)",
        "corpus/test-00003.parquet: 'gone': is not there",
        "damaged_table (2)",
        "corpus/test-00004.parquet: ",
        "corpus/test-00005.jsonl: line 2: ",
        "queries/test-00001.parquet: lacks 'query' (query or text or question); it has id, wording",
        "empty_document (2)",
    ):
        assert line in message, line
    dataset = read(tmp_path, strict=False)
    assert len(dataset.corpus) == 41
    assert len(dataset.queries) == 2


def test_a_field_that_no_table_has_is_refused(tmp_path):
    beir_tables(tmp_path)
    with pytest.raises(
        CorpusError, match=r"no table of .* has the columns of the fields text: txt"
    ):
        read(tmp_path, fields={"text": "txt"})
    with pytest.raises(ValueError, match="fields"):
        read(tmp_path, fields={"texts": "text"})


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="should hold tables of pages"):
        read(tmp_path)
    with pytest.raises(CorpusError, match="not a folder"):
        read(tmp_path / "nowhere")
    (tmp_path / "a.jsonl").write_text(json.dumps({"x": 1}) + "\n")
    with pytest.raises(CorpusError, match=r"lacks 'query' \(query or question\)"):
        read(tmp_path)


def tsv_tables(folder, corpus, queries, qrels="query-id\tcorpus-id\tscore\n0\t0\t1\n1\t1\t1\n"):
    folder.mkdir(exist_ok=True)
    for name, content in (("corpus", corpus), ("queries", queries), ("qrels", qrels)):
        data = content if isinstance(content, bytes) else content.encode()
        (folder / f"{name}.tsv").write_bytes(data)
    return folder


CORPUS_TSV = "corpus-id\ttext\n0\tharbour\n1\tglacier\n"
QUERIES_TSV = "query-id\tquery\n0\tharbour crane\n1\tglacier\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_byte_order_mark_is_no_part_of_a_column(tmp_path, end):
    tables = [one.replace("\n", end).encode("utf-8-sig") for one in (CORPUS_TSV, QUERIES_TSV)]
    dataset = read(tsv_tables(tmp_path / "in", *tables))
    assert [query.text for query in dataset.queries] == ["harbour crane", "glacier"]


@pytest.mark.parametrize(
    ("queries", "why"),
    [
        ("query-id\tquery\n0\tharbour\n1\tglacier\textra\n", r"line 3: expected 2 columns .*got 3"),
        ("query-id\tquery\n0\n1\tglacier\n", r"line 2: expected 2 columns .*got 1"),
        ("0\tharbour crane\n1\tglacier\n", r"queries.tsv: lacks 'query_id' \(query-id or _id"),
        ("query-id\tquery\n\tharbour\n1\tglacier\n", r"queries.tsv: row 2: no query_id"),
        ("query-id\tquery\tquery\n0\ta\tb\n", "has two columns 'query'"),
        (b"query-id\tquery\n0\tcaf\xe9\n1\tglacier\n", "line 2: byte 6 of the line, 0xe9"),
    ],
)
def test_odd_lines_of_a_table_are_named(tmp_path, queries, why):
    with pytest.raises(CorpusError, match=why):
        read(tsv_tables(tmp_path / "in", CORPUS_TSV, queries))


def test_odd_lines_are_left_out_when_lenient(tmp_path):
    queries = "query-id\tquery\n0\tharbour crane\n1\tglacier\textra\n"
    dataset = read(tsv_tables(tmp_path / "in", CORPUS_TSV, queries), strict=False)
    assert [query.query_id for query in dataset.queries] == ["0"]
    assert dataset.dropped == {"malformed_row": 1, "judgement_of_absent_query": 1}


def test_long_cells_and_odd_digits(tmp_path):
    long = "harbour " * 40_000
    folder = tsv_tables(
        tmp_path / "in",
        f"corpus-id\ttext\tpdf\tpage\n0\t{long}\ta.pdf\t1\n1\tglacier\ta.pdf\t²\n",
        QUERIES_TSV,
    )
    write_pdf(folder / "a.pdf", words("one"))
    with pytest.raises(CorpusError, match="page should be an integer, got '²'"):
        read(folder)
    dataset = read(folder, strict=False)
    assert len(next(iter(dataset.corpus)).text) == len(long.rstrip("\n"))


def test_an_empty_grade_is_no_grade(tmp_path):
    qrels = "query-id\tcorpus-id\tscore\n0\t0\t\n1\t1\t1\n"
    with pytest.raises(CorpusError, match=r"bad_grade \(1\)"):
        read(tsv_tables(tmp_path / "in", CORPUS_TSV, QUERIES_TSV, qrels))


def test_rows_of_one_query_are_one_query_with_several_pages(tmp_path, caplog):
    rows = [
        {"query": "Who pays?", "image": {"bytes": png("red")}, "image_filename": "r.png"},
        {"query": "who  pays?", "image": {"bytes": png("blue")}, "image_filename": "b.png"},
        {"query": "How much?", "image": {"bytes": png("blue")}, "image_filename": "b.png"},
    ]
    write_parquet(tmp_path / "in" / "test.parquet", rows)
    dataset = read(tmp_path / "in")
    assert [query.text for query in dataset.queries] == ["Who pays?", "How much?"]
    first, second = (dataset.qrels[query.query_id] for query in dataset.queries)
    assert first == {"r.png": 1, "b.png": 1} and second == {"b.png": 1}
    assert "rows_of_one_query (1)" in caplog.text
