"""Too little memory is told as that, and nothing else is."""

import errno

import pytest

from arms.errors import (
    ArmIndexError,
    BrokenPackageError,
    MissingExtraError,
    OutOfMemoryError,
    SettingsError,
)
from arms.extras import not_importable
from arms.indexes.folder import reading
from arms.out_of_memory import is_out_of_memory, out_of_memory


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 37.3 GiB for an array with shape (100000, 100000)"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"
        ),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("std::bad_alloc"),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
)
def test_memory_is_known_however_it_is_worded(error):
    assert is_out_of_memory(error)
    told = str(out_of_memory(error, "load x"))
    assert told.startswith("there is not enough memory to load x")
    assert "\n" not in told
    outer = SettingsError("the encoder can't be loaded")
    outer.__cause__ = error
    assert is_out_of_memory(outer)


def test_other_errors_are_not_memory():
    for error in (
        ValueError("out of memory"),
        KeyError("x"),
        OSError(errno.ENOENT, "absent"),
        None,
    ):
        assert not is_out_of_memory(error)


def test_a_package_is_missing_only_if_it_is_not_there():
    absent = ModuleNotFoundError("No module named 'nowhere'", name="nowhere")
    missing = not_importable(absent, "nowhere", "late")
    assert isinstance(missing, MissingExtraError)
    assert str(missing).startswith("nowhere is needed here and is not installed.")
    inner = not_importable(absent, "numpy", "late")  # a package that numpy would need
    assert isinstance(inner, MissingExtraError)
    assert inner.package == "nowhere"


def test_a_package_that_is_there_is_not_said_to_be_missing():
    broken = not_importable(ImportError("undefined symbol: x", name="numpy.core"), "numpy", "late")
    assert isinstance(broken, BrokenPackageError)
    assert "numpy is installed and can't be loaded: undefined symbol: x" in str(broken)
    large = ImportError("libx.so: failed to map segment from shared object", name="numpy")
    assert isinstance(not_importable(large, "numpy", "late"), OutOfMemoryError)


def test_a_folder_of_a_packages_name_is_not_the_package(tmp_path, monkeypatch):
    (tmp_path / "leftover").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    error = ImportError("cannot import name 'init' from 'leftover'", name="leftover")
    assert isinstance(not_importable(error, "leftover", "late"), MissingExtraError)


def test_an_index_is_not_blamed_for_want_of_memory_or_right(tmp_path):
    message = "not enough memory to open the index"
    with pytest.raises(OutOfMemoryError, match=message), reading(tmp_path):
        raise OSError(errno.ENOMEM, "Cannot allocate memory")
    message = r"permission denied .*; ask for the right to read it"
    with pytest.raises(ArmIndexError, match=message), reading(tmp_path):
        raise PermissionError(errno.EACCES, "Permission denied", str(tmp_path / "x.npy"))
