import json

import pytest
from PIL import Image

from arms.corpora import pdf
from arms.corpora.beir import write_beir
from arms.corpora.pictures import load_picture
from arms.corpora.queries import QuerySettings, make_queries
from arms.corpora.reader import read_dataset, read_documents
from arms.errors import CorpusError
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import REAL_DATA, jsonl, needs_real_data
from tests.arms.corpora.page_files import (
    BAD_PDFS,
    HEIGHT,
    WIDTH,
    image,
    words,
    write_bad_pdfs,
    write_pdf,
    write_picture,
)

DRAWING = b"2 w 50 50 m 350 450 l S 0 0 1 rg 100 100 80 200 re f\n"


def read(folder, **options):
    return read_documents(DatasetSettings(path=folder, format="pdf", **options))


@pytest.fixture
def pdfs(tmp_path):
    write_pdf(tmp_path / "b.pdf", words("two", "lines"), image(0, 0, WIDTH, HEIGHT), DRAWING)
    write_pdf(tmp_path / "sub" / "a.PDF", words("coffee"))
    return tmp_path


def test_a_document_is_a_page_with_its_text_layer(pdfs):
    documents = list(read(pdfs))
    assert [(document.doc_id, document.text) for document in documents] == [
        ("b::p001", "two\nlines"),
        ("b::p002", ""),
        ("b::p003", ""),
        ("sub/a::p001", "coffee"),
    ]
    assert documents[1].metadata == {"pdf": "b.pdf", "page": 2, "n_pages": 3}
    assert [len(document.pages) for document in documents] == [1] * 4
    assert documents[1].pages[0].visual_density == 1
    assert load_picture(documents[2].pages[0]).size == (WIDTH * 2, HEIGHT * 2)


def test_a_document_may_be_a_whole_file(pdfs):
    documents = list(read(pdfs, documents="file"))
    assert [(document.doc_id, document.text) for document in documents] == [
        ("b", "two\nlines"),
        ("sub/a", "coffee"),
    ]
    assert [page.number for page in documents[0].pages] == [1, 2, 3]


def test_the_first_four_bytes_of_work_are_kept(pdfs, monkeypatch, own_cache):
    fingerprint = read(pdfs).fingerprint
    monkeypatch.setattr(pdf, "_text_layer", lambda *given: pytest.fail("extracted again"))
    assert read(pdfs).fingerprint == fingerprint
    assert read(pdfs, documents="file").fingerprint != fingerprint
    assert not list(own_cache.rglob("*.tmp"))


def test_a_changed_or_added_file_is_seen(pdfs):
    before = len(read(pdfs))
    write_pdf(pdfs / "c.pdf", words("three"))
    assert len(read(pdfs)) == before + 1
    write_pdf(pdfs / "c.pdf", words("three"), words("four, five"))
    assert len(read(pdfs)) == before + 2


def test_every_bad_pdf_is_named_and_the_rest_is_kept(pdfs):
    write_bad_pdfs(pdfs / "bad")
    (pdfs / "notes.docx").write_bytes(b"PK")
    (pdfs / ".hidden.pdf").write_bytes(b"")
    with pytest.raises(CorpusError) as caught:
        read(pdfs)
    message = str(caught.value)
    for name, (_, kind, reason) in BAD_PDFS.items():
        assert f"  {kind} (1): " in message
        assert f"    bad/{name}: {reason}" in message
    assert "other_file (1): a file is of a kind that isn't read\n    notes.docx" in message
    corpus = read(pdfs, strict=False)
    assert [document.doc_id for document in corpus] == [
        "b::p001",
        "b::p002",
        "b::p003",
        "sub/a::p001",
    ]


def test_what_was_left_out_is_counted_on_every_reading(pdfs):
    write_bad_pdfs(pdfs / "bad")
    (pdfs / "queries.jsonl").write_bytes(jsonl([{"_id": "q", "text": "two lines"}]))
    (pdfs / "qrels").mkdir()
    (pdfs / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\tb::p001\t1\n")
    settings = DatasetSettings(path=pdfs, format="pdf", strict=False)
    for _ in range(2):
        dataset = read_dataset(settings)
        assert dataset.dropped == {kind: 1 for _, kind, _ in BAD_PDFS.values()}
        assert dataset.qrels == {"q": {"b::p001": 1}}


def test_a_dataset_needs_queries_and_says_so(pdfs):
    with pytest.raises(CorpusError, match=r"lacks queries.jsonl, qrels/\*.tsv .*l2r queries"):
        read_dataset(DatasetSettings(path=pdfs, format="pdf"))


def test_nothing_usable_is_fatal_and_still_names_each_file(tmp_path):
    write_bad_pdfs(tmp_path)
    with pytest.raises(CorpusError) as caught:
        read(tmp_path, strict=False)
    assert "no_document" in str(caught.value)
    assert all(name in str(caught.value) for name in BAD_PDFS)
    with pytest.raises(CorpusError, match=r"should hold PDF files \(.pdf\); got no file"):
        (tmp_path / "empty").mkdir()
        read(tmp_path / "empty")
    with pytest.raises(CorpusError, match="not a folder"):
        read(tmp_path / "nowhere")


def test_a_page_that_cannot_be_loaded_is_named_and_the_others_stay(pdfs):
    content = (pdfs / "b.pdf").read_bytes()
    broken = content.replace(b"[5 0 R 7 0 R 9 0 R]", b"[5 0 R 99 0 R 9 0 R]").replace(
        b"7 0 obj\n<< /Type /Page ", b"7 0 obj\n<< /Type /Gone "
    )
    (pdfs / "b.pdf").write_bytes(broken)
    with pytest.raises(CorpusError, match=r"unreadable_page \(1\)(.|\n)*b.pdf: page 2: "):
        read(pdfs)
    corpus = read(pdfs, strict=False)
    assert [document.doc_id for document in corpus] == ["b::p001", "b::p003", "sub/a::p001"]
    whole = list(read(pdfs, strict=False, documents="file"))
    assert [page.number for page in whole[0].pages] == [1, 3]


def test_queries_can_be_made_and_read_back_with_pages(tmp_path):
    folder = tmp_path / "pdfs"
    for number in range(6):
        lines = [
            f"Sentence {word} of page number {number} tells one more fact." for word in "abcdef"
        ]
        write_pdf(folder / f"{number}.pdf", words(*lines))
    dataset = make_queries(read(folder), QuerySettings(n_queries=4))
    write_beir(dataset, tmp_path / "made")
    back = read_dataset(DatasetSettings(path=tmp_path / "made"))
    assert back.queries == dataset.queries
    assert back.corpus.fingerprint == dataset.corpus.fingerprint
    assert all(len(document.pages) == 1 for document in back.corpus)


def pictures(folder, **options):
    return read_documents(DatasetSettings(path=folder, format="images", **options))


def test_a_folder_of_pictures_is_a_corpus_without_text(tmp_path):
    write_picture(tmp_path / "b.png")
    write_picture(tmp_path / "a" / "scan 1.JPG", format="JPEG")
    write_picture(tmp_path / "c.webp")
    frames = [Image.new("L", (9, 9), grey) for grey in (0, 255)]
    frames[0].save(tmp_path / "d.tif", save_all=True, append_images=frames[1:])
    (tmp_path / "Thumbs.db").write_bytes(b"")
    documents = list(pictures(tmp_path))
    assert [document.doc_id for document in documents] == ["a/scan 1", "b", "c", "d"]
    assert {document.text for document in documents} == {""}
    assert {document.pages[0].visual_density for document in documents} == {1.0}
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "page.png").write_bytes(b"<html>")
    with pytest.raises(CorpusError) as caught:
        pictures(tmp_path)
    for line in (
        "empty_file (1): a file has no byte\n    empty.png: has 0 bytes",
        "unusable_picture (1)",
        "page.png: can't be read as a picture: cannot identify image file",
        "more_frames (1): a TIFF holds several pages, of which the first is read\n    d.tif: 2",
        "other_file (1)",
    ):
        assert line in str(caught.value)
    assert len(pictures(tmp_path, strict=False)) == 4


def test_two_files_with_one_id_are_named(tmp_path):
    write_picture(tmp_path / "a.png")
    write_picture(tmp_path / "a.jpg")
    with pytest.raises(CorpusError, match=r"duplicate_document_id(.|\n)*'a'"):
        pictures(tmp_path)


@needs_real_data
def test_the_real_pdfs_give_the_same_text_as_their_corpus():
    folder = REAL_DATA / "mmlongbench-doc-pages"
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        expected = {record["_id"]: record["text"] for record in map(json.loads, lines)}
    found = {document.doc_id: document.text for document in read(folder / "pdfs", density="none")}
    assert expected.keys() <= found.keys()
    same = sum(found[doc_id].split() == text.split() for doc_id, text in expected.items())
    assert same > 0.6 * len(expected), "the corpus divides words at U+0002, which the reader joins"


def test_words_divided_at_a_line_end_are_whole():
    texts = ["soft\x02ware and well\x02being", "a well-being, state\x02of-the-art", "\x02"]
    assert pdf.without_line_breaks(texts) == [
        "software and well-being",
        "a well-being, state-of-the-art",
        "",
    ]
