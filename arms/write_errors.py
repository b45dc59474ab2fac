"""What stopped a write, told with the place and what to do, however a library words it."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arms.errors import RoutingError, WriteError
from arms.home import CACHE_VARIABLE, cache_root

_OF_THE_DISK = {
    errno.ENOSPC: "no space is left on the device",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than is allowed",
    errno.EROFS: "the file system is read-only",
    errno.EIO: "the device failed to read or write",
}
"""Errors that only writing, or a broken device, meets → how they are told."""
_OF_THE_PLACE = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EEXIST: "a file is in the place of a folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "a folder of that name is there",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EBUSY: "it is a mount point or in use; name a folder inside it",
    errno.EXDEV: "it is a mount point; name a folder inside it",
    errno.ELOOP: "a link in the path leads to itself",
}
_IN_WORDS = (
    (re.compile(r"no space left|os error 28\b|disk full", re.IGNORECASE), errno.ENOSPC),
    (re.compile(r"quota exceeded|os error 122\b", re.IGNORECASE), errno.EDQUOT),
    (re.compile(r"read-only file system|os error 30\b", re.IGNORECASE), errno.EROFS),
    (re.compile(r"file too large|os error 27\b", re.IGNORECASE), errno.EFBIG),
)
"""How libraries without error numbers (safetensors, faiss, Arrow, fast-plaid) word them."""
_HALF_WRITTEN = re.compile(
    r"\d+ requested and \d+ written|could not write|write error", re.IGNORECASE
)
_HARDLY_FREE_BYTES = 64 << 10


@contextmanager
def writing_to(target: Path) -> Iterator[None]:
    """Raise ``WriteError`` that names ``target`` where the body fails to write there.

    Errors of reading something else pass through.
    """
    try:
        yield
    except WriteError as error:
        if error.path == target or not _is_of(error.path, target):
            raise
        raise WriteError(cannot_write(target, error.cause), target, error.cause) from error
    except RoutingError:
        raise
    except Exception as error:
        cause = _cause(error, target)
        if cause is None:
            raise
        raise WriteError(cannot_write(target, cause), target, cause) from error


def cannot_write(target: Path, cause: str) -> str:
    """Say that ``target`` can't be written, why, and what to do."""
    if _lies_in(target, cache_root()):
        remedy = f"name another cache folder in the environment variable {CACHE_VARIABLE}"
    else:
        remedy = "write to another place"
    return (
        f"{target} can't be written: {cause}. Mend that, or {remedy}, then run the same command "
        "again"
    )


def disk_cause(error: BaseException) -> str | None:
    """Say what is wrong with the disk, by number or words; None where it is something else."""
    if isinstance(error, OSError) and error.errno in _OF_THE_DISK:
        return _OF_THE_DISK[error.errno]
    number = next((number for words, number in _IN_WORDS if words.search(str(error))), None)
    return None if number is None else _OF_THE_DISK[number]


def place_cause(error: OSError) -> str:
    """Say what is wrong with a path."""
    known = _OF_THE_PLACE.get(error.errno or 0)
    return known or (error.strerror or str(error)).partition(": ")[0].lower()


def _cause(error: Exception, target: Path) -> str | None:
    found = disk_cause(error)
    if found is not None:
        return found
    if _HALF_WRITTEN.search(str(error)) and _is_full(target):
        return _OF_THE_DISK[errno.ENOSPC]
    if isinstance(error, OSError) and error.filename is not None and error.errno is not None:
        named = [Path(os.fsdecode(one)) for one in (error.filename, error.filename2) if one]
        if any(_is_of(one, target) for one in named):
            return place_cause(error)
        if any(_lies_in(target, one) for one in named):  # a folder above it can't be made
            return f"{place_cause(error)} ({error.filename})"
    return None


def _is_full(target: Path) -> bool:
    try:
        state = os.statvfs(target.parent)
    except (OSError, AttributeError):
        return False
    return state.f_bavail * state.f_frsize < _HARDLY_FREE_BYTES


def _is_of(path: Path, target: Path) -> bool:
    """Whether a path is ``target``, in it, or a hidden file or folder that is made for it."""
    if _lies_in(path, target):
        return True
    if not _lies_in(path, target.parent):
        return False
    below = Path(os.path.abspath(path)).relative_to(os.path.abspath(target.parent))
    return bool(below.parts) and below.parts[0].startswith(f".{target.name}.")


def _lies_in(path: Path, folder: Path) -> bool:
    absolute, root = Path(os.path.abspath(path)), Path(os.path.abspath(folder))
    return absolute == root or root in absolute.parents
