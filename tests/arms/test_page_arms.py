"""Arms over page pictures with the offline default: OCR, then a text encoder."""

import hashlib
import json
import logging

import numpy as np
import pytest
from PIL import Image

from arms.arm import ArmSpec
from arms.catalogue import build_arm, kind_of, open_arm, spec_of
from arms.contract import QUERIES, ArmContract, contract_corpus
from arms.corpora.corpus import MemoryCorpus
from arms.encoders import ocr
from arms.encoders.ocr import PageReader
from arms.encoders.ocr_pages import mean_vector
from arms.errors import CorpusError, SettingsError
from arms.indexes.folder import read_record
from arms.records import Document, Page
from arms.settings import ArmSettings
from tests.arms.pages import KnowingEngine, document

NAMES = ("mm_dense", "mm_late", "mm_rerank")
DENSE, LATE, RERANK = (ArmSpec(name, "page") for name in NAMES)


@pytest.fixture(scope="module", autouse=True)
def _known_pictures(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("L2R_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(ocr, "_load", lambda settings: KnowingEngine())
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="module")
def corpus(pictures):
    return MemoryCorpus(
        "drawn", [document(one.doc_id, one.title, one.text, pictures) for one in contract_corpus()]
    )


class PageContract(ArmContract):
    fills_k = True

    @pytest.fixture(autouse=True)
    def _drawing_folder(self, pictures):
        self._pictures = pictures

    def document(self, doc_id, title, text):
        return document(doc_id, title, text, self._pictures)


class TestDense(PageContract):
    @pytest.fixture(params=[{}, {"index": "hnsw"}], ids=str)
    def spec(self, request):
        return ArmSpec("mm_dense", "page", options=request.param)


class TestLate(PageContract):
    @pytest.fixture(params=[{}, {"exact_limit": 0}], ids=str)
    def spec(self, request):
        return ArmSpec("mm_late", "page", options=request.param)


class TestRerank(PageContract):
    @pytest.fixture
    def spec(self):
        return RERANK


def built(spec, corpus, root):
    build_arm(spec, corpus, root)
    return open_arm(spec, corpus, root)


def picture_page(picture, path):
    picture.save(path)
    return Page(path, None, hashlib.sha256(path.read_bytes()).hexdigest())


def test_they_are_called_by_their_short_names():
    for name in NAMES:
        spec = spec_of(ArmSettings(arm=name))
        assert spec_of(ArmSettings(**ArmSettings(arm=name).model_dump())) == spec
        assert (spec.granularity, spec.identity) == ("page", name)
        assert kind_of(name).modality == "page_image"
    with pytest.raises(SettingsError, match="'mm_late' has granularity page, got 'document'"):
        spec_of(ArmSettings(arm="mm_late", granularity="document"))


def test_the_record_names_ocr_and_what_it_reads_with(corpus, tmp_path):
    build_arm(RERANK, corpus, tmp_path)
    for name in ("mm_dense", "mm_late"):
        record = read_record(tmp_path / name)
        assert record.encoder_id == "ocr+all-MiniLM-L6-v2"
        settings = {"engine": "onnxruntime", "min_confidence": 0.5, "max_side": 2000}
        assert record.options["ocr"] == settings
        assert (record.n_documents, record.n_units) == (10, 20)


def test_each_page_is_read_once_for_all_arms(pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(KnowingEngine, "read", [])
    twice = [
        document(one, "", text, pictures) for one, text in zip("abc", ("x", "y", "y"), strict=True)
    ]
    corpus = MemoryCorpus("three", twice)
    for spec in (DENSE, LATE, RERANK):
        build_arm(spec, corpus, tmp_path)
    assert len(KnowingEngine.read) == 2


def test_late_scores_the_best_line(corpus, tmp_path):
    """A page's score is the inner product of the query and its best line, wherever that stands."""
    from arms.encoders.resolve import resolve
    from arms.encoders.text_encoder import load_text_encoder

    encoder, reader = load_text_encoder(resolve()), PageReader()
    (ranking,) = built(LATE, corpus, tmp_path).rank(["flour and water"], 10)
    query = encoder.embed(["flour and water"])[0]
    for one in corpus:
        lines = [line.text for page in one.pages for line in reader.read(page)]
        expected = (encoder.embed(lines) @ query).max()
        score = dict(zip(ranking.doc_ids, ranking.scores, strict=True))[one.doc_id]
        assert score == pytest.approx(expected, abs=2e-3)  # float16 vectors


def test_a_long_page_counts_to_its_end(pictures, tmp_path):
    """The mean over windows of 100 words: what stands last on a page changes its vector."""
    filler = "Minutes of the harbour board, with nothing decided. " * 60
    texts = {
        "a": filler + "A knight jumps in chess. " * 12,
        "b": filler + "Ducks swim in ponds. " * 12,
    }
    corpus = MemoryCorpus(
        "long", [document(one, "", text, pictures) for one, text in texts.items()]
    )
    (ranking,) = built(DENSE, corpus, tmp_path).rank(["how does a knight move in chess"], 2)
    assert ranking.doc_ids == ("a", "b")
    assert ranking.scores[0] - ranking.scores[1] > 0.02


def test_a_short_page_has_the_vector_of_its_text(pictures, tmp_path):
    text = "High tides, twice a day."
    docs = MemoryCorpus("text", [Document("a", "", text)])
    pages = MemoryCorpus("page", [document("a", "", text, pictures)])
    as_text = built(ArmSpec("text_dense"), docs, tmp_path).rank(QUERIES, 1)
    as_page = built(DENSE, pages, tmp_path).rank(QUERIES, 1)
    for one, other in zip(as_text, as_page, strict=True):
        assert one.scores == pytest.approx(other.scores, abs=1e-6)


def test_mean_vector():
    vectors = np.array([[1, 0], [0, 1]], dtype=np.float32)
    np.testing.assert_allclose(mean_vector(vectors), [[0.5**0.5, 0.5**0.5]], rtol=1e-6)
    assert mean_vector(vectors[:0]).shape == (0, 2)
    opposite = np.array([[1, 0], [-1, 0]], dtype=np.float32)
    assert mean_vector(opposite).shape == (0, 2)


def test_blank_and_unreadable_pages_are_never_found(pictures, tmp_path, caplog):
    blank = picture_page(Image.new("RGB", (300, 300), "white"), tmp_path / "blank.png")
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG no picture")
    documents = [
        Document("blank", "", "tides", pages=(blank,)),
        document("good", "Tides", "High tides", pictures),
        Document("broken", "", "tides", pages=(Page(broken, None, "0" * 64),)),
        Document("gone", "", "", pages=(Page(tmp_path / "gone.png", None, "1" * 64), blank)),
        Document("none", "", "text alone has no page"),
    ]
    corpus = MemoryCorpus("odd", documents)
    with caplog.at_level(logging.WARNING):
        arms = [built(spec, corpus, tmp_path / "index") for spec in (DENSE, LATE, RERANK)]
    for arm in arms:
        for ranking in arm.rank(["tides", "anything else"], 5):
            assert ranking.doc_ids == ("good",)
    messages = [one.getMessage() for one in caplog.records]
    assert len(messages) == 2  # one for each index that holds vectors
    assert "2 of 6 pages can't be read" in messages[0]
    assert f"broken: {broken}" in messages[0] and "gone#p1" in messages[0]
    written = json.loads((tmp_path / "index" / "mm_late" / "without_vectors.json").read_text())
    assert (written["n_units"], written["n_without_vectors"]) == (6, 4)
    assert sorted(written["unreadable"]) == ["broken", "gone#p1"]


def test_an_unreadable_page_is_named_by_a_build_that_was_killed(pictures, tmp_path, caplog):
    from arms.progress import SilentProgress

    broken = Document("broken", "", "", pages=(Page(tmp_path / "gone.png", None, "1" * 64),))
    corpus = MemoryCorpus("odd", [broken, document("good", "", "High tides", pictures)])

    def die(*arguments, **named):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arms.architectures.late.UnitTable.write", die)
        with pytest.raises(KeyboardInterrupt):
            build_arm(LATE, corpus, tmp_path, SilentProgress())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("arms.encoders.ocr_pages.OcrPages.encode_units", die)  # its chunk is kept
        build_arm(LATE, corpus, tmp_path)
    assert "broken" in caplog.text.splitlines()[-1]


def test_a_corpus_on_which_nothing_is_read_finds_nothing(tmp_path):
    blank = picture_page(Image.new("RGB", (300, 300), "white"), tmp_path / "blank.png")
    corpus = MemoryCorpus("photographs", [Document(one, "", "", pages=(blank,)) for one in "ab"])
    for options in ({}, {"index": "ivf"}):
        spec = ArmSpec("mm_dense", "page", options=options)
        assert built(spec, corpus, tmp_path).rank(["tides"], 3)[0].doc_ids == ()
    for spec in (LATE, RERANK):
        if spec is RERANK:
            build_arm(DENSE, corpus, tmp_path)
        assert built(spec, corpus, tmp_path).rank(["tides", "x"], 3)[1].doc_ids == ()


def test_a_corpus_without_pages_says_how_to_leave_it_out(tmp_path):
    for spec in (DENSE, LATE, RERANK):
        with pytest.raises(CorpusError, match=r"no document .* has a picture .* only: \["):
            build_arm(spec, contract_corpus(), tmp_path)


def test_a_stopped_reading_ends_soon_and_goes_on_where_it_was(pictures, tmp_path, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(KnowingEngine, "read", [])
    pages = [page for n in range(40) for page in document(f"d{n}", "", f"page {n}", pictures).pages]

    class Stopping:
        def advance(self, amount=1):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PageReader().read_all(pages, Stopping(), workers=2)
    assert 0 < len(KnowingEngine.read) < 40

    class Counting:
        moved = 0

        def advance(self, amount=1):
            self.moved += amount

    PageReader().read_all(pages, counting := Counting(), workers=2)
    assert counting.moved == 40
    assert len(set(KnowingEngine.read)) == len(KnowingEngine.read) == 40


def test_an_engine_that_fails_costs_one_page(pictures, tmp_path, monkeypatch, caplog):
    class Failing(KnowingEngine):
        def __call__(self, picture):
            if picture.shape[0] == picture.shape[1]:
                raise RuntimeError("too many boxes")
            return super().__call__(picture)

    monkeypatch.setattr(ocr, "_load", lambda settings: Failing())
    odd = picture_page(Image.new("RGB", (77, 77), "grey"), tmp_path / "odd.png")
    corpus = MemoryCorpus(
        "odd", [Document("odd", "", "", pages=(odd,)), document("good", "", "tides", pictures)]
    )
    assert built(LATE, corpus, tmp_path).rank(["tides"], 2)[0].doc_ids == ("good",)
    assert "RuntimeError('too many boxes')" in caplog.text
