"""Columns of a table as arrays, and rows that are alike in several columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_SEPARATOR = "\x1f"


def texts(table: pa.Table, column: str) -> NDArray[np.object_]:
    """(N,) str."""
    return np.asarray(table[column].to_numpy(zero_copy_only=False), dtype=object)


def numbers(table: pa.Table, column: str) -> NDArray[np.float64]:
    """(N,) float64; NaN where null."""
    return np.asarray(table[column].cast(pa.float64()).to_numpy(), dtype=np.float64)


def keys(table: pa.Table, columns: Sequence[str] = ("dataset", "query_id")) -> pa.ChunkedArray:
    """(N,) the values of ``columns`` in one text, by which rows of two tables are compared."""
    return pc.binary_join_element_wise(*(table[column] for column in columns), _SEPARATOR)


def row_codes(table: pa.Table, columns: Sequence[str]) -> NDArray[np.int64]:
    """(N,) numbers from 0, below N; equal where rows have the same values in ``columns``."""
    codes = np.zeros(len(table), dtype=np.int64)
    for column in columns:
        encoded = pc.dictionary_encode(table[column].combine_chunks())
        size = max(len(encoded.dictionary), 1)
        codes = codes * size + encoded.indices.to_numpy().astype(np.int64)
        codes = np.unique(codes, return_inverse=True)[1]  # stays small, so it can't overflow
    return codes


def repeated(table: pa.Table, columns: Sequence[str]) -> NDArray[np.bool_]:
    """(N,) True where an earlier row has the same values in ``columns``."""
    first = np.zeros(len(table), dtype=bool)
    first[np.unique(row_codes(table, columns), return_index=True)[1]] = True
    return ~first


def row_describer(table: pa.Table, columns: Sequence[str]) -> Callable[[int], str]:
    """Return what names a row (from 0) by its values in ``columns``."""

    def describe(row: int) -> str:
        values: list[Any] = [table[column][row].as_py() for column in columns]
        return ", ".join(str(value)[:60] for value in values)

    return describe
