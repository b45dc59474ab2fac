"""Writes that are either whole or absent, also where several processes write one target."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from arms.write_errors import writing_to

_TEMPORARY = ".tmp"
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EISDIR)
_ATTEMPTS = 100


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _beside(target: Path) -> Path:
    """Return a hidden path beside ``target`` that no other writer has."""
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{_TEMPORARY}")


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; rename it into place when the body succeeds.

    Of several writers the last to finish wins; each one's file is whole.

    Raises:
        WriteError: it can't be written; nothing of it is left.
    """
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = _beside(target)
        try:
            yield temporary
            _flush(temporary)
            os.replace(temporary, target)
            _flush(target.parent)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path, keep_existing: bool = False) -> Iterator[Path]:
    """Yield an empty temporary folder; rename it to ``target`` when the body succeeds.

    An existing ``target`` is replaced. Leftovers of killed writers are cleared first.

    Args:
        keep_existing: leave a ``target`` that another writer finished meanwhile, and drop this one;
            for folders whose name tells their content.

    Raises:
        WriteError: it can't be written; nothing of it is left.
    """
    if target.is_symlink():
        target = target.resolve()  # a link stays, what it leads to is replaced
    with writing_to(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _clear_leftovers(target)
        temporary = _beside(target)
        with _marked(temporary):
            yield temporary
            for path in temporary.rglob("*"):
                if path.is_file():
                    _flush(path)
            if not (keep_existing and target.is_dir()):
                replace_folder(temporary, target)
            _flush(target.parent)


@contextmanager
def _marked(folder: Path) -> Iterator[None]:
    """Make a temporary folder, locked so that nobody takes it for a leftover, and remove it."""
    unmarked = folder.with_suffix(".new")  # no leftover to others until it is marked
    unmarked.mkdir()
    mark = _mark(unmarked)
    try:
        unmarked.rename(folder)
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if mark is not None:
            os.close(mark)


def replace_folder(source: Path, target: Path) -> None:
    """Rename the folder ``source`` to ``target``; a folder or file that is there is removed."""
    for attempt in range(_ATTEMPTS):
        try:
            os.replace(source, target)
            return
        except OSError as error:  # a folder replaces an empty one only
            if error.errno not in _TAKEN or attempt == _ATTEMPTS - 1 or not source.is_dir():
                raise
        retired = _beside(target)
        try:
            os.replace(target, retired)
        except FileNotFoundError:  # another writer moved it first
            continue
        if retired.is_dir() and not retired.is_symlink():
            shutil.rmtree(retired, ignore_errors=True)
        else:
            retired.unlink(missing_ok=True)


def _mark(folder: Path) -> int | None:
    """Lock ``folder`` for as long as this process lives; None where folders can't be locked."""
    try:
        import fcntl
    except ModuleNotFoundError:  # not a POSIX system
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has it, or the file system knows no locks
        os.close(descriptor)
        return None
    return descriptor


def _clear_leftovers(target: Path) -> None:
    """Remove the temporary folders of writers of ``target`` that are no longer alive."""
    name = target.name
    for path in target.parent.iterdir():
        if path.name.startswith(f".{name}.") and path.name.endswith(_TEMPORARY) and path.is_dir():
            try:
                mark = _mark(path)
            except FileNotFoundError:
                continue
            if mark is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(mark)


def write_json(target: Path, content: Any) -> None:
    """Write ``content`` as indented JSON with sorted keys, atomically."""
    with atomic_file(target) as temporary:
        temporary.write_text(
            json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
            + "\n",
            encoding="utf-8",
        )
