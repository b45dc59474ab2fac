"""One writer at a time for an output folder."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from arms.errors import FolderInUseError
from arms.sole_writer import sole_writer, writes

HOLD = (
    "import sys; from pathlib import Path; from arms.sole_writer import sole_writer\n"
    "with sole_writer(Path(sys.argv[1])):\n"
    "    print('holds', flush=True); sys.stdin.read()"
)


def hold(folder):
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=-1, stdout=-1)
    assert other.stdout.readline() == b"holds\n"
    return other


def test_a_second_process_is_refused_and_told_who_writes(tmp_path):
    other = hold(tmp_path / "labels")
    with (
        pytest.raises(FolderInUseError) as raised,
        sole_writer(tmp_path / "router", tmp_path / "labels"),
    ):
        pass
    told = str(raised.value)
    assert told.startswith(f"{tmp_path / 'labels'} is being written by '-c {tmp_path}/labels'")
    assert f"(process {other.pid} on " in told
    assert "since 20" in told
    assert "\n" not in told
    with sole_writer(tmp_path / "router"):  # nothing of the refused attempt is held
        pass
    other.communicate(b"")
    with sole_writer(tmp_path / "labels"):
        pass


def test_one_folder_under_two_names_is_one(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    other = hold(tmp_path / "link" / "labels")
    with pytest.raises(FolderInUseError), sole_writer(tmp_path / "real" / "labels"):
        pass
    other.communicate(b"")


def test_a_killed_holder_holds_no_more(tmp_path):
    other = hold(tmp_path / "labels")
    other.kill()
    other.communicate()
    with sole_writer(tmp_path / "labels"):
        pass
    assert os.listdir(tmp_path) == [".labels.lock"]


def test_it_nests_in_a_thread_and_not_across_threads(tmp_path):
    @writes("folder")
    def write(number, folder):
        with sole_writer(folder):
            return number

    with sole_writer(tmp_path / "x"):
        assert write(1, tmp_path / "x") == 1
        with ThreadPoolExecutor(1) as pool, pytest.raises(FolderInUseError, match="since"):
            pool.submit(write, 2, folder=tmp_path / "x").result()
    assert write(3, tmp_path / "x") == 3
