"""Why a file can't be read."""

import errno
import os

import pytest

from arms.errors import OutOfMemoryError
from arms.read_errors import damage, misnamed, shown, why_absent


def forbid(monkeypatch, name, path):
    """Let ``Path.<name>`` refuse one path: a superuser is refused nothing."""
    import pathlib

    real = getattr(pathlib.Path, name)

    def refused(self, *given, **named):
        if self == path:
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return real(self, *given, **named)

    monkeypatch.setattr(pathlib.Path, name, refused)


def test_what_is_not_there_is_told_from_what_may_not_be_seen(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    assert why_absent(path) == f"{path} is not a file: nothing of that name is there"
    assert why_absent(tmp_path) == f"{tmp_path} is not a file: it is a folder"
    path.touch()
    assert why_absent(path, "folder") == f"{path} is not a folder"
    forbid(monkeypatch, "stat", path)
    assert why_absent(path) == f"{path} can't be reached: permission denied"


def test_damage_tells_the_true_cause(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    said = ValueError("no magic bytes")
    assert damage(path, said) == f"{path} is absent"
    assert damage(tmp_path, said) == f"{tmp_path} is a folder, not a file"
    path.touch()
    assert damage(path, said) == f"{path} is damaged (no magic bytes)"
    broken = OSError(errno.EIO, "Input/output error")
    assert damage(path, broken) == f"{path} can't be read: the device failed to read or write"
    with pytest.raises(OutOfMemoryError, match=rf"not enough memory to read {path}"):
        damage(path, OSError(errno.ENOMEM, "Cannot allocate memory"))
    forbid(monkeypatch, "open", path)
    assert damage(path, said) == f"{path} can't be read: permission denied"


def test_a_name_in_another_encoding_is_pointed_to(tmp_path):
    (tmp_path / "z.pdf").touch()
    assert misnamed(tmp_path / "café.pdf") is None
    os.close(os.open(os.fsencode(tmp_path) + b"/caf\xe9.pdf", os.O_CREAT))
    told = r"the folder has 'caf\xe9.pdf', whose name isn't UTF-8: rename it"
    assert misnamed(tmp_path / "café.pdf") == told
    assert why_absent(tmp_path / "café.pdf") == f"{tmp_path}/café.pdf is not a file: {told}"
    assert misnamed(tmp_path / "cafè.pdf") is None
    assert shown("caf\udce9 é") == r"caf\xe9 é"
