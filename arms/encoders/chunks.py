"""Resumable, streamed encoding: a chunk of units at a time, each kept until the index is whole.

A chunk is named by the hash of its texts, or pictures, and of their encoder, and written
atomically. A build that is killed and started again reads the chunks that exist and encodes the
rest, so it loses at most the chunk in flight, and memory holds one chunk however large the corpus.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arms.atomic import atomic_file
from arms.progress import Task
from arms.records import Unit

CHUNK_FOLDER = "chunks"
"""Inside an index folder; removed when the index is whole."""

Arrays = Mapping[str, NDArray]
Encode = Callable[[Sequence[Unit]], Arrays]
"""Units of one chunk → named arrays, of any shape but not of objects."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One encoded chunk: its units in the corpus's order, and what the encoder made of them."""

    units: tuple[Unit, ...]
    arrays: Arrays


def encode_in_chunks(
    units: Iterable[Unit],
    encode: Encode,
    index_folder: Path,
    encoder_fingerprint: str,
    task: Task,
    chunk_units: int = 512,
) -> Iterator[Chunk]:
    """Yield the chunks of ``units`` in order, encoding those that ``index_folder`` lacks.

    Args:
        encoder_fingerprint: everything that changes the arrays, as text: encoder revision, data
            type, maximum length, prompt.
        task: moved on by the number of units of each chunk.
    """
    chunk_folder = index_folder / CHUNK_FOLDER
    chunk_folder.mkdir(parents=True, exist_ok=True)
    walk = iter(units)
    while chunk := tuple(islice(walk, chunk_units)):
        contents = [unit.text + (unit.page.key if unit.page else "") for unit in chunk]
        path = chunk_folder / f"{_content_hash(encoder_fingerprint, contents)}.safetensors"
        if not path.is_file():
            _write(path, encode(chunk))
        yield Chunk(chunk, _read(path))
        task.advance(len(chunk))


def length_sorted_batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yield batches of positions, longest first, so that a batch holds texts of like length."""
    order = sorted(range(len(lengths)), key=lambda position: (-lengths[position], position))
    for begin in range(0, len(order), batch_size):
        yield order[begin : begin + batch_size]


def _content_hash(encoder_fingerprint: str, contents: Sequence[str]) -> str:
    digest = hashlib.sha256(encoder_fingerprint.encode("utf-8"))
    for content in contents:
        encoded = content.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.hexdigest()[:40]


def _write(path: Path, arrays: Arrays) -> None:
    from safetensors.numpy import save_file

    with atomic_file(path) as temporary:
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, temporary)


def _read(path: Path) -> Arrays:
    from safetensors.numpy import load_file

    return load_file(path)
