"""Home and cache folders, also of a user whom the system doesn't know."""

import getpass
import os
import subprocess
import sys
from pathlib import Path

import pytest

from arms import home
from arms.cache import cache_folder
from arms.errors import SettingsError


@pytest.fixture(autouse=True)
def forgetful(monkeypatch):
    monkeypatch.delenv("L2R_CACHE", raising=False)
    home._usual_cache.cache_clear()
    yield
    home._usual_cache.cache_clear()


@pytest.fixture
def nobody(monkeypatch, tmp_path):
    """No variable names the user or a home, and the system doesn't know the number."""
    for variable in ("USER", "LOGNAME", "LNAME", "USERNAME", "HOME", "XDG_CACHE_HOME", "HF_HOME"):
        monkeypatch.delenv(variable, raising=False)

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_user_without_a_name_gets_one(nobody, monkeypatch):
    monkeypatch.setenv("LOGNAME", "")  # so that it is restored
    monkeypatch.setenv("HF_HOME", "")
    del os.environ["HF_HOME"]
    with pytest.raises(KeyError):
        getpass.getuser()
    home.name_the_user()
    assert getpass.getuser() == f"user{os.getuid()}"
    assert os.environ["HF_HOME"] == str(cache_folder("huggingface"))


def test_without_a_home_the_cache_is_a_private_temporary_folder(nobody, caplog):
    folder = cache_folder("text")
    assert folder.parent == nobody / f"learning-to-route-{os.getuid()}"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert cache_folder("text") == folder
    (record,) = caplog.records
    assert "no home folder is known" in record.getMessage()
    assert record.getMessage().endswith("the environment variable L2R_CACHE.")


def test_a_folder_that_another_user_made_there_is_not_trusted(nobody):
    (nobody / "elsewhere").mkdir()
    (nobody / f"learning-to-route-{os.getuid()}").symlink_to(nobody / "elsewhere")
    folder = cache_folder("text")
    assert (nobody / "elsewhere") not in (folder.parent, folder.parent.resolve())
    assert folder.parent.is_dir()


def test_a_usual_cache_that_cannot_be_made_is_replaced(monkeypatch, tmp_path, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert cache_folder("text").parent.parent == tmp_path
    assert f"{tmp_path}/file/learning-to-route can't be written" in caplog.text


def test_a_usual_cache_and_a_named_one_are_used(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("text") == tmp_path / "learning-to-route" / "text"
    monkeypatch.setenv("L2R_CACHE", str(tmp_path / "other"))
    assert cache_folder("text") == tmp_path / "other" / "text"
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("path", ["~nosuchuser/c", Path("~nosuchuser/c")])
def test_an_unknown_home_is_refused_with_the_path_and_where_it_was_given(monkeypatch, path):
    with pytest.raises(SettingsError, match=r"^my\.yaml, corpus: ~nosuchuser/c begins in a home"):
        home.expanded(path, "my.yaml, corpus")
    monkeypatch.setenv("L2R_CACHE", str(path))
    with pytest.raises(SettingsError, match=r"^the variable L2R_CACHE: ~nosuchuser/c begins"):
        cache_folder("text")
    assert home.expanded("a/~b", "x") == Path("a/~b")


def test_torch_loads_for_a_user_whom_nobody_knows(tmp_path):
    """What asks for the user's name asks on import."""
    code = (
        "import pwd, getpass\n"
        "def unknown(number): raise KeyError(number)\n"
        "pwd.getpwuid = unknown\n"
        "from arms.home import name_the_user; name_the_user()\n"
        "import torch._dynamo.config; print(getpass.getuser())"
    )
    pytest.importorskip("torch")
    kept = {k: os.environ[k] for k in ("PATH", "PYTHONPATH") if k in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", code], env={**kept, "TMPDIR": str(tmp_path)}, capture_output=True
    )
    assert done.stdout.decode().strip() == f"user{os.getuid()}", done.stderr.decode()
