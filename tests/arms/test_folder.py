"""The life of an index folder."""

import json
import subprocess
import sys

import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.corpora.corpus import MemoryCorpus
from arms.encoders.resolve import ResolvedEncoder
from arms.errors import ArmIndexError, CorpusError, FolderInUseError, SettingsError
from arms.indexes import folder
from arms.records import Document

SPEC = ArmSpec("bm25", options={"k1": 1.2})
CORPUS = MemoryCorpus("c", [Document("a", "", "one"), Document("b", "", "two")])
ENCODER = ResolvedEncoder("e", "/nowhere", "abc")


def build(root, content=b"12345", **source):
    with folder.building(folder.Source(SPEC, CORPUS, **source), root) as work:
        (work.folder / "x.bin").write_bytes(content)
        (work.folder / "chunks").mkdir()
        (work.folder / "chunks" / "big").write_bytes(b"0" * 1000)
        work.n_units = 2
    return root / SPEC.folder_name


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


def test_a_failed_build_leaves_no_index_and_keeps_its_chunks(tmp_path):
    with (
        pytest.raises(RuntimeError),
        folder.building(folder.Source(SPEC, CORPUS), tmp_path) as work,
    ):
        (work.folder / "chunks").mkdir()
        (work.folder / "half").write_text("")
        raise RuntimeError
    assert not folder.finished(folder.Source(SPEC, CORPUS), tmp_path)
    assert not (tmp_path / SPEC.folder_name).exists()
    with folder.building(folder.Source(SPEC, CORPUS), tmp_path) as work:
        assert [path.name for path in work.folder.iterdir()] == ["chunks"]


def test_another_format_version_is_refused(tmp_path):
    record = build(tmp_path) / "arm.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"format_version": 99}))
    with pytest.raises(ArmIndexError, match="format version 99, this release reads 2"):
        folder.read_record(record.parent)


def test_an_index_that_is_there_stays_until_the_new_one_is_whole(tmp_path):
    source = folder.Source(SPEC, CORPUS)
    place = build(tmp_path)
    with pytest.raises(RuntimeError), folder.building(source, tmp_path) as work:
        (work.folder / "x.bin").write_bytes(b"half")
        assert folder.open_folder(source, tmp_path) == place
        raise RuntimeError
    assert (folder.open_folder(source, tmp_path) / "x.bin").read_bytes() == b"12345"


SIZES = (5, folder._WHOLE_BYTES + 1)


@pytest.mark.parametrize("n_bytes", SIZES)
@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda path, n: path.write_bytes(bytes(n)), "x.bin has other content than was written"),
        (lambda path, n: path.write_bytes(b"1" * (n - 1)), "x.bin has {0:,} bytes, {1:,} were"),
        (lambda path, n: path.unlink(), "x.bin is missing"),
    ],
    ids=["zeros", "cut", "missing"],
)
def test_a_file_that_is_not_as_it_was_written_is_named(tmp_path, n_bytes, damage, told):
    source = folder.Source(SPEC, CORPUS)
    place = build(tmp_path, content=b"1" * n_bytes)
    damage(place / "x.bin", n_bytes)
    with pytest.raises(ArmIndexError) as raised:
        folder.open_folder(source, tmp_path)
    assert told.format(n_bytes - 1, n_bytes) in str(raised.value)
    assert str(raised.value).endswith("delete the folder and run l2r index")
    assert not folder.finished(source, tmp_path)
    build(tmp_path)
    assert folder.finished(source, tmp_path)


def test_of_a_long_file_both_ends_are_hashed(tmp_path):
    content, digests = bytearray(folder._WHOLE_BYTES * 3 + 7), set()
    for place in (None, 0, -1):
        if place is not None:
            content[place] ^= 1
        (tmp_path / "x").write_bytes(content)
        digests.add(folder.digest_of_file(tmp_path / "x"))
    assert len(digests) == 3


def test_a_second_builder_is_refused_and_told_who_builds(tmp_path):
    """Of one index at a time there is one builder; of others, as many as like."""
    code = (
        "import sys, time; from pathlib import Path; from arms.indexes import folder;"
        "from tests.arms.test_folder import CORPUS, SPEC\n"
        "with folder.building(folder.Source(SPEC, CORPUS), Path(sys.argv[1])) as work:\n"
        "    print('builds', flush=True); sys.stdin.read()\n"
        "    (work.folder / 'x.bin').write_bytes(b'theirs')"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=-1, stdout=-1, text=True
    )
    assert other.stdout.readline() == "builds\n"
    with pytest.raises(FolderInUseError, match=rf"process {other.pid} on .+; wait until"):
        build(tmp_path)
    build(tmp_path / "elsewhere")
    other.communicate("")
    assert (tmp_path / "bm25" / "x.bin").read_bytes() == b"theirs"
    build(tmp_path)
    assert (tmp_path / "bm25" / "x.bin").read_bytes() == b"12345"


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
