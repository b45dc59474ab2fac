"""Corpora of other formats, written once as BEIR files into the cache, with what was wrong.

A converted folder is named by the hash of what it was made from, so it never goes stale.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from arms.atomic import atomic_folder, write_json
from arms.cache import cache_folder

_VERSION = 1
"""Raised when the same source would be converted differently."""
_PROBLEMS = "problems.json"

Found = tuple[str, str]
"""Kind of problem and example, as :class:`arms.corpora.problems.Problems` takes them."""


@dataclass(frozen=True, slots=True)
class Converted:
    """BEIR files in the cache: ``corpus.jsonl``, and what else the format gave."""

    folder: Path
    problems: tuple[Found, ...]


def convert(kind: str, state: Any, write: Callable[[Path], list[Found]]) -> Converted:
    """Return the folder for ``state``; ``write`` fills it, and names problems, where it is new.

    ``state`` is what the content depends on, as JSON. A killed conversion leaves nothing that
    would be taken for whole.
    """
    text = json.dumps([_VERSION, kind, state], sort_keys=True, ensure_ascii=True)
    folder = cache_folder("corpora") / kind / hashlib.sha256(text.encode()).hexdigest()[:40]
    if _read(folder) is None:
        with atomic_folder(folder, keep_existing=True) as temporary:
            write_json(temporary / _PROBLEMS, write(temporary))
    found = _read(folder) or []
    return Converted(folder, tuple((kind, example) for kind, example in found))


def _read(folder: Path) -> list[Found] | None:
    """Return the problems; None where the conversion is absent or damaged."""
    try:
        found: list[Found] = json.loads((folder / _PROBLEMS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return found


def file_states(root: Path, files: Iterable[Path]) -> list[tuple[str, int, int]]:
    """Return each file's path below ``root``, size in bytes and time of change."""
    states = []
    for path in files:
        state = path.stat()
        states.append((path.relative_to(root).as_posix(), state.st_size, state.st_mtime_ns))
    return states


class RecordWriter:
    """Writes ``corpus.jsonl`` or ``queries.jsonl`` line by line."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def add(self, record_id: str, text: str, metadata: dict[str, Any], title: str = "") -> None:
        """Write one document or query."""
        record = {"_id": record_id, "title": title, "text": text, "metadata": metadata}
        if not title:
            del record["title"]
        line = json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")
        self._stream.write(line + b"\n")
