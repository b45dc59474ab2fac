"""Why a file can't be read: the true cause, whatever the reader of its format says."""

from __future__ import annotations

import os
from pathlib import Path

from arms.out_of_memory import is_out_of_memory, out_of_memory
from arms.write_errors import disk_cause, place_cause


def why_absent(path: Path, wanted: str = "file") -> str:
    """Say why ``path`` isn't the ``file`` or ``folder`` that was wanted; it starts with its name.

    A name in the folder that is the same in another encoding is pointed to.
    """
    try:
        path.stat()
    except FileNotFoundError:
        alike = misnamed(path)
        if alike is not None:
            return f"{path} is not a {wanted}: {alike}"
        return f"{path} is not a {wanted}: nothing of that name is there"
    except OSError as error:
        return f"{path} can't be reached: {place_cause(error)}"
    if path.is_dir():
        return f"{path} is not a file: it is a folder"
    return f"{path} is not a {wanted}"


def damage(path: Path, error: BaseException) -> str:
    """Say what is wrong with a file that couldn't be read: absent, out of reach, or damaged.

    Raises:
        OutOfMemoryError: nothing is wrong with the file, there was no memory to read it.
    """
    if is_out_of_memory(error):
        raise out_of_memory(error, f"read {path}") from error
    try:
        with path.open("rb"):
            pass
    except FileNotFoundError:
        return f"{path} is absent"
    except IsADirectoryError:
        return f"{path} is a folder, not a file"
    except OSError as refused:
        return f"{path} can't be read: {place_cause(refused)}"
    cause = disk_cause(error)
    if cause is not None:
        return f"{path} can't be read: {cause}"
    told = str(error).strip() or type(error).__name__
    return f"{path} is damaged ({told})"


def misnamed(path: Path) -> str | None:
    """Name the file beside ``path`` whose name is the same but not UTF-8; None without one."""
    try:
        names = [name for name in os.listdir(path.parent) if not is_utf8(name)]
    except OSError:
        return None
    for name in names:
        raw = os.fsencode(name)
        if any(_decoded(raw, encoding) == path.name for encoding in ("cp1252", "latin-1", "cp437")):
            return f"the folder has '{shown(name)}', whose name isn't UTF-8: rename it"
    return None


def is_utf8(name: str) -> bool:
    """Whether a file's name, as the system gave it, was UTF-8."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def shown(name: str) -> str:
    r"""Write a name with what isn't UTF-8 as ``\xe9``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _decoded(raw: bytes, encoding: str) -> str | None:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        return None
