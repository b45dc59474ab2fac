"""How many bits a stored vector has: float16, int8 or binary.

- ``float16``: 2 bytes per number.
- ``int8``: 1 byte per number and a float16 scale per vector, its largest number over 127; rounding
  errs by at most half a scale per number.
- ``binary``: 1 bit per number, its sign. A vector is scored as ±1/√d, so it keeps length 1, against
  the query in full precision (asymmetric scoring, as of binary embeddings in general).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

Storage = Literal["float16", "int8", "binary"]
STORAGES: tuple[Storage, ...] = get_args(Storage)


def row_type(storage: Storage, dimension: int) -> np.dtype:
    """Return the type of one stored vector; its ``itemsize`` is the vector's bytes."""
    if storage == "float16":
        return np.dtype([("numbers", "<f2", (dimension,))])
    if storage == "int8":
        return np.dtype([("scale", "<f2"), ("codes", "i1", (dimension,))])
    return np.dtype([("bits", "u1", (-(-dimension // 8),))])


def encode(vectors: NDArray[np.floating], storage: Storage) -> NDArray:
    """(n, d) vectors → (n,) rows of :func:`row_type`."""
    rows = np.zeros(len(vectors), dtype=row_type(storage, vectors.shape[1]))
    if storage == "float16":
        rows["numbers"] = vectors
    elif storage == "int8":
        wide = np.asarray(vectors, dtype=np.float32)
        rows["scale"] = np.abs(wide).max(axis=1, initial=0) / 127
        scale = rows["scale"].astype(np.float32)[:, None]
        codes = np.divide(wide, scale, out=np.zeros_like(wide), where=scale > 0)
        rows["codes"] = np.rint(codes).clip(-127, 127)
    else:
        rows["bits"] = np.packbits(np.asarray(vectors) > 0, axis=1, bitorder="little")
    return rows


def decode(rows: NDArray, storage: Storage, dimension: int) -> NDArray[np.floating]:
    """(n,) rows → (n, d) numbers: a view of float16, or new float32."""
    codes, scale = split(rows, storage, dimension)
    if storage == "float16":
        return codes
    vectors: NDArray[np.float32] = codes * scale[:, None]
    return vectors


def split(rows: NDArray, storage: Storage, dimension: int) -> tuple[NDArray, NDArray[np.float32]]:
    """(n,) rows → (n, d) codes and (n,) scales, whose products are the vectors.

    Codes are float16 or int8, and have few enough digits for bfloat16 to hold those of int8.
    """
    if storage == "float16":
        return rows["numbers"], np.ones(len(rows), dtype=np.float32)
    if storage == "int8":
        return rows["codes"], rows["scale"].astype(np.float32)
    bits = rows["bits"]
    signs = np.take(_signs(), bits, axis=0).reshape(len(rows), 8 * bits.shape[1])[:, :dimension]
    return signs, np.full(len(rows), 1 / np.sqrt(dimension), dtype=np.float32)


@lru_cache(maxsize=1)
def _signs() -> NDArray[np.int8]:
    """(256, 8) ±1 of each byte's bits, lowest first."""
    every = np.arange(256, dtype=np.uint8)[:, None]
    return np.unpackbits(every, axis=1, bitorder="little").astype(np.int8) * 2 - 1
