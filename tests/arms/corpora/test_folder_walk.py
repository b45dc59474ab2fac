"""Files below a folder, and what is said of links."""

import os
from pathlib import Path

import pytest

from arms.corpora.folder_walk import files_below


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "in"
    for name in ("a.pdf", "2020/b.pdf", ".store/c.pdf", ".hidden.pdf", "2020/deep/d.pdf"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (tmp_path / "archive").mkdir()
    (tmp_path / "archive" / "old.pdf").write_bytes(b"x")
    return root


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in files_below(folder)[0]]


def test_hidden_files_and_folders_are_left_out(folder):
    assert names(folder) == ["2020/b.pdf", "2020/deep/d.pdf", "a.pdf"]
    assert files_below(folder)[1] == []


def test_links_inside_the_folder_are_followed(folder):
    os.symlink(".store", folder / "linked")
    os.symlink("../.store/c.pdf", folder / "2020" / "e.pdf")
    found, named = files_below(folder)
    assert len(found) == 4  # c.pdf once, by the first of its links
    assert named == [] or [kind for kind, _ in named] == ["link_to_known"]


def test_what_is_read_already_is_not_read_again(folder):
    os.symlink("2020", folder / "latest")
    os.symlink("a.pdf", folder / "0.pdf")
    assert names(folder) == ["2020/b.pdf", "2020/deep/d.pdf", "a.pdf"]
    assert files_below(folder)[1] == [
        ("link_to_known", "0.pdf → a.pdf"),
        ("link_to_known", "latest → 2020"),
    ]


@pytest.mark.parametrize("target", ["..", "../..", ".", "../2020"])
def test_loops_end(folder, target):
    os.symlink(target, folder / "2020" / "loop")
    assert names(folder) == ["2020/b.pdf", "2020/deep/d.pdf", "a.pdf"]


def test_links_that_lead_elsewhere_are_named(folder):
    os.symlink("../archive", folder / "2019")
    os.symlink("../archive/old.pdf", folder / "old.pdf")
    os.symlink("gone.pdf", folder / "b.pdf")
    os.symlink("self", folder / "self")
    assert names(folder) == ["2020/b.pdf", "2020/deep/d.pdf", "a.pdf"]
    assert files_below(folder)[1] == [
        ("link_outside_folder", "2019 → ../archive"),
        ("dangling_link", "b.pdf → gone.pdf"),
        ("link_outside_folder", "old.pdf → ../archive/old.pdf"),
        ("dangling_link", "self → self"),
    ]
