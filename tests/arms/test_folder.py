"""The life of an index folder."""

import json

import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.corpora.corpus import MemoryCorpus
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import ArmIndexError, CorpusError, SettingsError
from arms.indexes import folder
from arms.records import Document

SPEC = ArmSpec("bm25", options={"k1": 1.2})
CORPUS = MemoryCorpus("c", [Document("a", "", "one"), Document("b", "", "two")])
ENCODER = ResolvedEncoder("e", "/nowhere", "abc")


def build(root, **source):
    with folder.building(folder.Source(SPEC, CORPUS, **source), root) as work:
        (work.folder / "x.bin").write_bytes(b"12345")
        (work.folder / "chunks").mkdir()
        (work.folder / "chunks" / "big").write_bytes(b"0" * 1000)
        work.n_units = 2
    return work.folder


def test_a_whole_build_is_recorded(tmp_path):
    place = build(tmp_path, encoder=ENCODER, dtype="bfloat16")
    record = folder.read_record(place)
    assert place == tmp_path / "bm25"
    assert (record.size_bytes, record.n_units, record.n_documents) == (5, 2, 2)
    assert (record.encoder_id, record.encoder_revision) == ("e", "abc")
    assert record.encoder_dtype == "bfloat16"
    assert record.corpus_fingerprint == CORPUS.fingerprint
    assert record.build_peak_rss_mb > 1
    assert "numpy" in record.library_versions
    assert not (place / "chunks").exists()


def test_every_difference_is_named(tmp_path):
    build(tmp_path, encoder=ENCODER, dtype="float32")
    other = ResolvedEncoder("e", "/nowhere", "def")
    assert folder.finished(folder.Source(SPEC, CORPUS, None, ENCODER, "float32"), tmp_path)
    assert not folder.finished(folder.Source(SPEC, CORPUS, None, other, "float32"), tmp_path)
    with pytest.raises(ArmIndexError) as raised:
        folder.open_folder(folder.Source(SPEC, CORPUS, {"k1": 2}, other, "bfloat16"), tmp_path)
    for part in (
        "options: wanted {'k1': 2}, the index has {'k1': 1.2}",
        "encoder_revision: wanted 'def', the index has 'abc'",
        "encoder_dtype: wanted 'bfloat16', the index has 'float32'",
        "run l2r index to rebuild it",
    ):
        assert part in str(raised.value)


def test_a_failed_build_leaves_no_record_and_keeps_its_chunks(tmp_path):
    build(tmp_path)
    with (
        pytest.raises(RuntimeError),
        folder.building(folder.Source(SPEC, CORPUS), tmp_path) as work,
    ):
        assert not (work.folder / "x.bin").exists()
        (work.folder / "chunks").mkdir()
        (work.folder / "half").write_text("")
        raise RuntimeError
    assert not folder.finished(folder.Source(SPEC, CORPUS), tmp_path)
    with folder.building(folder.Source(SPEC, CORPUS), tmp_path) as work:
        assert [path.name for path in work.folder.iterdir()] == ["chunks"]


def test_another_format_version_is_refused(tmp_path):
    record = build(tmp_path) / "arm.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"format_version": 99}))
    with pytest.raises(ArmIndexError, match="format version 99, this release reads 1"):
        folder.read_record(record.parent)


def test_an_empty_corpus_is_refused_before_anything_is_written(tmp_path):
    with (
        pytest.raises(CorpusError, match="'empty' has no documents"),
        folder.building(folder.Source(SPEC, MemoryCorpus("empty", [])), tmp_path),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_the_catalogue_builds_and_opens_by_name(tmp_path):
    build_arm(SPEC, CORPUS, tmp_path)
    (ranking,) = open_arm(SPEC, CORPUS, tmp_path).rank(["two"], 3)
    assert ranking.doc_ids == ("b",)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("bm25", {"k_1": 1}, "options of 'bm25': unknown key 'k_1'; did you mean 'k1'?"),
        ("bm25", {"b": 2}, "options of 'bm25': b: Input should be less than or equal to 1"),
        ("text_dense", {"index": "tree"}, "options of 'text_dense': index: Input should be"),
        ("none", {"k1": 1}, "options of 'none': unknown key 'k1'"),
        ("fusion", {"arms": ["bm25"]}, "options of 'fusion': arms"),
    ],
)
def test_wrong_options_are_refused_by_name(tmp_path, name, options, message):
    with pytest.raises(SettingsError) as raised:
        build_arm(ArmSpec(name, options=options), CORPUS, tmp_path)
    assert str(raised.value).startswith(message)
