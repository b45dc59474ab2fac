"""A write that fails is told with the place, the cause and what to do, whoever writes."""

import errno
import os
import subprocess

import numpy as np
import pyarrow as pa
import pytest

from arms.arm import ArmSpec
from arms.atomic import atomic_file, atomic_folder, write_json
from arms.corpora.corpus import MemoryCorpus
from arms.errors import CorpusError, WriteError
from arms.indexes import folder
from arms.indexes.mapped_array import create_mapped
from arms.records import Document
from arms.sole_writer import sole_writer
from arms.write_errors import writing_to
from oracle.tables import write_table

NOTHING_LEFT = "no space is left on the device"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A file system of 8 KiB."""
    place = tmp_path_factory.mktemp("full")
    command = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(place)]
    if os.name != "posix" or os.geteuid() != 0 or subprocess.run(command, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def write_safetensors(path):
    from safetensors.numpy import save_file

    save_file({"x": np.ones(100_000)}, path)


def write_numpy(path):
    with path.open("wb") as stream:
        np.save(stream, np.ones(100_000))


def write_faiss(path):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexFlatIP(64)
    index.add(np.ones((4096, 64), dtype=np.float32))
    faiss.write_index(index, str(path))


def write_parquet(path):
    table = pa.table({"x": np.random.default_rng(0).random(100_000)})
    write_table(path, table, table.schema)


WRITES = {
    "text": lambda path: path.write_text("x" * 100_000),
    "json": lambda path: write_json(path, "x" * 100_000),
    "numpy": write_numpy,
    "mapped": lambda path: create_mapped(path, np.float32, (1000, 100)).fill(1),
    "parquet": write_parquet,
    "safetensors": write_safetensors,
    "faiss": write_faiss,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_full_disk_is_told_and_nothing_is_left(full, write):
    target = full / "deep" / "out"
    for writer, inside in ((atomic_file, None), (atomic_folder, "inside")):
        with pytest.raises(WriteError) as raised, writer(target) as temporary:
            write(temporary / inside if inside else temporary)
        assert str(raised.value) == (
            f"{target} can't be written: {NOTHING_LEFT}. Mend that, or write to another place, "
            "then run the same command again"
        )
        assert list((full / "deep").iterdir()) == []


def test_an_index_that_finds_no_space_leaves_none_taken(full):
    source = folder.Source(ArmSpec("bm25"), MemoryCorpus("c", [Document("a", "", "one")]))
    with (
        pytest.raises(WriteError, match=f"{full}/bm25 can't be written: {NOTHING_LEFT}"),
        folder.building(source, full) as build,
    ):
        create_mapped(build.folder / "vectors.npy", np.float32, (1000, 100)).fill(1)
    assert [path.name for path in full.iterdir() if path.name != "deep"] == [".bm25.lock"]
    (full / ".bm25.lock").unlink()


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, NOTHING_LEFT),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EROFS, "the file system is read-only"),
        (errno.EIO, "the device failed to read or write"),
        (errno.EFBIG, "the file would be larger than is allowed"),
    ],
)
def test_errors_of_the_disk_are_told_whether_or_not_they_name_a_file(tmp_path, number, told):
    for error in (
        OSError(number, os.strerror(number)),
        OSError(number, os.strerror(number), str(tmp_path / "x")),
    ):
        with (
            pytest.raises(WriteError, match=f"x can't be written: {told}"),
            atomic_file(tmp_path / "x") as temporary,
        ):
            temporary.write_text("half")
            raise error
        assert list(tmp_path.iterdir()) == []


def test_permission_is_told_of_what_is_written_and_not_of_what_is_read(tmp_path, monkeypatch):
    secret = tmp_path / "input.csv"
    with pytest.raises(PermissionError), atomic_file(tmp_path / "x"):
        raise PermissionError(errno.EACCES, "Permission denied", str(secret))
    with (
        pytest.raises(WriteError, match="x can't be written: permission denied"),
        atomic_file(tmp_path / "x") as temporary,
    ):
        raise PermissionError(errno.EACCES, "Permission denied", str(temporary))

    def refused(self, *given, **named):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.mkdir", refused)
    for begin in (atomic_folder, atomic_file, sole_writer):
        with (
            pytest.raises(WriteError, match="out can't be written: permission denied"),
            begin(tmp_path / "a" / "out"),
        ):
            pass


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=rf"a file is in the place of a folder \({tmp_path}/file"):
        write_json(tmp_path / "file" / "x.json", 1)


def test_of_a_write_within_a_write_the_outer_target_is_named(tmp_path):
    with (
        pytest.raises(WriteError) as raised,
        atomic_folder(tmp_path / "labels") as inner,
        atomic_file(inner / "labels.parquet"),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(raised.value).startswith(f"{tmp_path}/labels can't be written: {NOTHING_LEFT}")


def test_other_errors_pass(tmp_path):
    for error in (ValueError("write it well"), CorpusError("disk full of documents")):
        with pytest.raises(type(error)), writing_to(tmp_path / "x"):
            raise error


def test_of_the_cache_the_variable_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "cache"))
    with pytest.raises(WriteError) as raised, writing_to(tmp_path / "cache" / "text" / "x.json"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert "or name another cache folder in the environment variable L2R_CACHE" in str(raised.value)
