"""Writes that are whole or absent, by any number of writers."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from arms.atomic import atomic_file, atomic_folder, write_json


def test_writers_of_one_file_at_once_each_write_a_whole_one(tmp_path):
    target = tmp_path / "x.json"
    with atomic_file(target) as first, atomic_file(target) as second:
        assert first != second
        first.write_text("first")
        second.write_text("second")
    assert target.read_text() == "first"  # it ended last
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_leaves_what_was_there(tmp_path):
    write_json(tmp_path / "x.json", 1)
    with pytest.raises(ValueError, match="not JSON"):
        write_json(tmp_path / "x.json", float("nan"))
    assert (tmp_path / "x.json").read_text() == "1\n"
    assert len(list(tmp_path.iterdir())) == 1


def write_folder(target, letter):
    with atomic_folder(target) as folder:
        for number in range(3):
            (folder / f"{number}").write_text(letter)


def test_writers_of_one_folder_at_once_leave_one_whole(tmp_path):
    target = tmp_path / "out"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda letter: write_folder(target, letter), "abcdefgh" * 5))
    contents = {path.read_text() for path in target.iterdir()}
    assert len(list(target.iterdir())) == 3
    assert len(contents) == 1
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_named_by_its_content_is_kept_once_it_is_there(tmp_path):
    target = tmp_path / "hash"
    with atomic_folder(target, keep_existing=True) as second:
        (second / "x").write_text("second")
        with atomic_folder(target, keep_existing=True) as first:
            (first / "x").write_text("first")
    assert (target / "x").read_text() == "first"
    assert list(tmp_path.iterdir()) == [target]


def test_leftovers_of_killed_writers_go_and_those_of_living_ones_stay(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from arms.atomic import atomic_folder\n"
        "with atomic_folder(Path(sys.argv[1])) as folder:\n"
        "    (folder / 'x').touch(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "out")], check=False)
    assert done.returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_folder(tmp_path / "out") as living:
        (living / "x").touch()
        write_folder(tmp_path / "out", "a")
        assert (living / "x").exists()
        assert sorted(tmp_path.iterdir()) == sorted([living, tmp_path / "out"])
    assert os.listdir(tmp_path) == ["out"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "disk" / "out").mkdir(parents=True)
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "out")
    write_folder(tmp_path / "out", "a")
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "disk" / "out" / "0").read_text() == "a"
