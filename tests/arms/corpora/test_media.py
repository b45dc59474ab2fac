import os

import pytest
from PIL import Image

from arms.corpora.beir import write_beir
from arms.corpora.reader import read_dataset
from arms.errors import CorpusError
from arms.settings import DatasetSettings
from tests.arms.corpora.folders import REAL_DATA, needs_real_data, write_folder
from tests.arms.corpora.page_files import (
    BAD_PDFS,
    words,
    write_bad_pdfs,
    write_pdf,
    write_picture,
)


def read(folder, **options):
    return read_dataset(DatasetSettings(path=folder, **options))


def documents_naming(*metadata, text="some text"):
    return [
        {"_id": f"d{number}", "text": text, "metadata": one}
        for number, one in enumerate(metadata, start=1)
    ]


@pytest.fixture
def mixed(tmp_path):
    write_pdf(tmp_path / "pdfs" / "a.pdf", words("one"), words("two"))
    write_picture(tmp_path / "images" / "b.png")
    named = (
        {"pdf": "pdfs/a.pdf", "page": 2},
        {"image": "images/b.png"},
        {"pdf": "pdfs/a.pdf"},
        {},
    )
    return write_folder(tmp_path, documents_naming(*named))


def test_documents_get_the_pages_that_their_metadata_names(mixed):
    page, picture, whole, none = (document.pages for document in read(mixed, dpi=96).corpus)
    pdf = (mixed / "pdfs" / "a.pdf").resolve()
    assert [(one.path, one.number, one.dpi) for one in page] == [(pdf, 2, 96)]
    assert [one.number for one in whole] == [1, 2]
    assert whole[1] == page[0]
    assert picture[0].path.name == "b.png"
    assert picture[0].number is None
    assert none == ()
    assert len(page[0].sha256) == 64


def test_the_fingerprint_sees_a_changed_picture(mixed):
    before = read(mixed).corpus
    fingerprint = before.fingerprint
    path = mixed / "images" / "b.png"
    os.utime(path, ns=(1, 1))
    assert read(mixed).corpus.fingerprint == fingerprint
    write_picture(path, size=(41, 30))
    assert read(mixed).corpus.fingerprint != fingerprint


def test_a_file_is_hashed_once(mixed, monkeypatch):
    from arms.corpora import media

    hashed = []
    original = media._hash
    monkeypatch.setattr(media, "_hash", lambda path: hashed.append(path.name) or original(path))
    corpus = read(mixed).corpus
    assert list(corpus) == list(corpus)
    assert sorted(hashed) == ["a.pdf", "b.png"]


def test_every_bad_file_is_named_with_its_reason_in_one_report(tmp_path):
    write_bad_pdfs(tmp_path / "pdfs")
    write_pdf(tmp_path / "pdfs" / "good.pdf", words("one"))
    Image.effect_noise((64, 64), 50).save(tmp_path / "noise.png")
    noise = (tmp_path / "noise.png").read_bytes()
    (tmp_path / "half.png").write_bytes(noise[: len(noise) // 2])
    write_picture(tmp_path.parent / "outside.png")
    named = [{"pdf": f"pdfs/{name}", "page": 1} for name in BAD_PDFS] + [
        {"pdf": "pdfs/good.pdf", "page": 2},
        {"pdf": "pdfs/good.pdf", "page": "1"},
        {"image": "nowhere.png"},
        {"image": "nowhere.png"},
        {"image": "../outside.png"},
        {"image": "/etc/hostname"},
        {"image": ["a.png"]},
        {"image": "half.png"},
        {"image": "corpus.jsonl"},
    ]
    folder = write_folder(tmp_path, documents_naming({}, {}, *named))
    with pytest.raises(CorpusError) as caught:
        read(folder)
    message = str(caught.value)
    for name, (_, kind, reason) in BAD_PDFS.items():
        assert f"  {kind} (1): " in message
        assert f"    pdfs/{name}: {reason}" in message
    for line in (
        "pdfs/good.pdf: has 1 pages, counted from 1; page 2 isn't one (corpus.jsonl:9)",
        "pdfs/good.pdf: page should be an integer, got '1' (corpus.jsonl:10)",
        "missing_media (2): a named file is absent or can't be read\n"
        "    nowhere.png: is not there (corpus.jsonl:11 and 1 more)",
        "media_outside_folder (2)",
        f"../outside.png: lies outside {tmp_path}",
        "['a.png']: expected a file's path, got ['a.png']",
        "unusable_picture (2)",
        "    half.png: can't be read as a picture",
        "    corpus.jsonl: can't be read as a picture: cannot identify image file",
    ):
        assert line in message, line
    dataset = read(folder, strict=False)
    assert len(dataset.corpus) == 2 + len(named), "documents with text stay, without a page"
    assert not any(document.pages for document in dataset.corpus)
    assert sum(dataset.dropped.values()) == len(named)


def test_a_document_without_text_goes_with_its_file(tmp_path):
    write_picture(tmp_path / "a.png")
    named = documents_naming({"image": "a.png"}, {"image": "b.png"}, text="")
    folder = write_folder(tmp_path, named, judgements="q1\td1\t1\n")
    with pytest.raises(CorpusError, match=r"missing_media \(1\)"):
        read(folder)
    dataset = read(folder, strict=False)
    assert [document.doc_id for document in dataset.corpus] == ["d1"]
    assert dataset.dropped["missing_media"] == 1
    assert "empty_document" not in dataset.dropped


def test_a_link_that_leads_outside_is_refused(tmp_path):
    write_picture(tmp_path / "outside" / "a.png")
    folder = write_folder(tmp_path / "set", documents_naming({"image": "a.png"}, {}))
    (folder / "a.png").symlink_to(tmp_path / "outside" / "a.png")
    with pytest.raises(CorpusError, match="media_outside_folder"):
        read(folder)


def test_a_picture_is_decoded_once_per_content(mixed, monkeypatch, own_cache):
    read(mixed)
    from arms.corpora import media, pictures

    assert len(list(own_cache.rglob("*.json"))) >= 1
    media._inspect.cache_clear()
    monkeypatch.setattr(pictures, "_read_file", lambda path: pytest.fail(f"decoded {path}"))
    read(mixed)


def test_a_written_folder_carries_its_media(mixed, tmp_path):
    dataset = read(mixed)
    write_beir(dataset, tmp_path / "copy" / "set")
    back = read(tmp_path / "copy" / "set").corpus
    assert back.fingerprint == dataset.corpus.fingerprint
    assert all(
        page.path.is_relative_to((tmp_path / "copy").resolve())
        for document in back
        for page in document.pages
    )


def test_text_is_read_where_the_packages_for_pages_are_absent(mixed, monkeypatch):
    from arms.corpora import media, pdf, pictures
    from arms.errors import MissingExtraError

    def absent():
        raise MissingExtraError("pypdfium2", "pages")

    media._inspect.cache_clear()
    monkeypatch.setattr(pdf, "pdfium", absent)
    monkeypatch.setattr(pictures, "_pillow", absent)
    documents = list(read(mixed).corpus)
    assert [len(document.pages) for document in documents] == [1, 1, 0, 0]
    media._inspect.cache_clear()


@needs_real_data
@pytest.mark.parametrize(
    ("name", "n_documents"),
    [("mmlongbench-doc-pages", 381), ("opencqa-charts", 932), ("flickr8k-1000", 608)],
)
def test_real_collections_have_a_page_per_document(name, n_documents):
    corpus = read(REAL_DATA / name).corpus
    assert [len(document.pages) for document in corpus] == [1] * n_documents
