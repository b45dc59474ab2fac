"""Writes that are either whole or absent."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def atomic_file(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; rename it into place when the body succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)
        _flush(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """Yield an empty temporary folder; rename it to ``target`` when the body succeeds.

    An existing ``target`` is replaced. Leftovers of a killed writer are cleared first.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.writing.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        for path in temporary.rglob("*"):
            if path.is_file():
                _flush(path)
        if target.exists():
            retired = target.with_name(f".{target.name}.retired.tmp")
            shutil.rmtree(retired, ignore_errors=True)
            os.replace(target, retired)
            os.replace(temporary, target)
            shutil.rmtree(retired, ignore_errors=True)
        else:
            os.replace(temporary, target)
        _flush(target.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_json(target: Path, content: Any) -> None:
    """Write ``content`` as indented JSON with sorted keys, atomically."""
    with atomic_file(target) as temporary:
        temporary.write_text(
            json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
            + "\n",
            encoding="utf-8",
        )
