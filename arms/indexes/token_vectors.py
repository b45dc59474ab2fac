"""Token vectors of every unit, on disk: written chunk by chunk, opened memory-mapped.

A folder holds ``token_vectors.json`` (written last), ``vectors.bin`` (the vectors of unit 0, then
of unit 1 …, row after row, little-endian) and ``begin.npy`` ((units + 1,) first vector of each
unit). The header's ``dtype`` says how a vector is stored: :mod:`arms.indexes.vector_storage`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from arms.atomic import write_json
from arms.errors import ArmIndexError
from arms.indexes.vector_storage import STORAGES, Storage, decode, encode, row_type, split

FORMAT_VERSION = 1
HEADER = "token_vectors.json"
_VECTORS = "vectors.bin"
_BEGIN = "begin.npy"


@dataclass(frozen=True, slots=True)
class TokenVectorHeader:
    """What ``token_vectors.json`` holds."""

    dimension: int
    n_units: int
    n_vectors: int
    dtype: Storage = "float16"
    format_version: int = FORMAT_VERSION


class TokenVectorWriter:
    """Appends units to a folder; :meth:`close` makes it readable.

    A folder whose writer wasn't closed has no header and doesn't open.
    """

    def __init__(self, folder: Path, dimension: int, dtype: Storage = "float16") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / HEADER).unlink(missing_ok=True)
        self._folder, self._dimension, self._dtype = folder, dimension, dtype
        self._lengths: list[NDArray[np.int64]] = []
        self._stream: BinaryIO = (folder / _VECTORS).open("wb")

    def add(self, vectors: NDArray, lengths: NDArray[np.integer]) -> None:
        """Append units: (Σ lengths, dimension) vectors and (units,) vectors per unit."""
        if vectors.shape != (int(lengths.sum()), self._dimension):
            raise ValueError(
                f"expected {int(lengths.sum())} vectors of {self._dimension} numbers, "
                f"got {vectors.shape}"
            )
        self._stream.write(encode(vectors, self._dtype).tobytes())
        self._lengths.append(np.asarray(lengths, dtype=np.int64))

    def close(self) -> TokenVectors:
        """Write the offsets, then the header, and open the folder."""
        self._stream.close()
        lengths = np.concatenate([np.zeros(1, dtype=np.int64), *self._lengths])
        np.save(self._folder / _BEGIN, np.cumsum(lengths), allow_pickle=False)
        header = TokenVectorHeader(
            self._dimension, len(lengths) - 1, int(lengths.sum()), self._dtype
        )
        write_json(self._folder / HEADER, asdict(header))
        return TokenVectors(self._folder)

    def __enter__(self) -> TokenVectorWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the file; without :meth:`close`, the folder stays unreadable."""
        self._stream.close()


class TokenVectors:
    """An opened folder. Opening reads the header alone; vectors are read where they are used."""

    def __init__(self, folder: Path) -> None:
        """Open ``folder``; raise ``ArmIndexError`` if it is unfinished or of another version."""
        self.header = _read_header(folder)
        row = row_type(self.header.dtype, self.header.dimension)
        path = folder / _VECTORS
        expected = self.header.n_vectors * row.itemsize
        if path.stat().st_size != expected:
            raise ArmIndexError(
                f"{path} has {path.stat().st_size} bytes, its header says {expected}; "
                "delete the folder and run l2r index"
            )
        # Copy-on-write, because torch refuses read-only arrays; nothing writes to it.
        self._rows: NDArray = (
            np.asarray(np.memmap(path, row, "c")) if expected else np.empty(0, row)
        )
        self.begin: NDArray[np.int64] = np.load(folder / _BEGIN, mmap_mode="r", allow_pickle=False)
        """(units + 1,) first vector of each unit; the last entry is the number of vectors."""
        self.n_units = self.header.n_units
        self.n_vectors = self.header.n_vectors
        self.dimension = self.header.dimension
        self.size_bytes = expected + self.begin.nbytes

    def of(self, unit: int) -> NDArray[np.floating]:
        """(tokens, dimension) vectors of one unit."""
        return self.decoded(int(self.begin[unit]), int(self.begin[unit + 1]))

    def decoded(self, first: int, last: int) -> NDArray[np.floating]:
        """(last − first, dimension) consecutive vectors: float16 still mapped, or new float32."""
        return decode(self._rows[first:last], self.header.dtype, self.dimension)

    def taken(self, rows: NDArray[np.integer]) -> NDArray[np.floating]:
        """(n, dimension) vectors of some rows, in the order given: new float16 or float32."""
        return decode(self._rows[rows], self.header.dtype, self.dimension)

    def split(self, first: int, last: int) -> tuple[NDArray, NDArray[np.float32]]:
        """Consecutive vectors as codes and scales (:func:`arms.indexes.vector_storage.split`)."""
        return split(self._rows[first:last], self.header.dtype, self.dimension)


def _read_header(folder: Path) -> TokenVectorHeader:
    path = folder / HEADER
    if not path.is_file():
        raise ArmIndexError(f"{folder} holds no finished token vectors; run (or rerun) l2r index")
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format_version") != FORMAT_VERSION or content.get("dtype") not in STORAGES:
        raise ArmIndexError(
            f"{path} has format version {content.get('format_version')} and data type "
            f"{content.get('dtype')}; this release reads version {FORMAT_VERSION} and "
            f"{', '.join(STORAGES)}; delete the folder and run l2r index"
        )
    return TokenVectorHeader(**content)
