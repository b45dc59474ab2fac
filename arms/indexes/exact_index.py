"""Exact MaxSim over all units of an index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from arms.bfloat16 import has_fast_bfloat16
from arms.indexes.fold import UnitTable, top_documents
from arms.indexes.maxsim import FloatArray, StreamedVectors, maxsim, noise, score, settled
from arms.indexes.position_major import PositionMajor, RoundingError
from arms.indexes.token_vectors import TokenVectors
from arms.records import Ranking

_COPY_LIMIT_BYTES = 3_000_000_000
_QUERIES_AT_ONCE = 64


class ExactIndex:
    """Exact MaxSim over all units.

    Where the processor multiplies bfloat16 in hardware, a first pass in bfloat16 bounds every
    unit's score from above, and only units whose bound reaches the top are scored in float32: half
    the memory and several times the speed, with the same result.

    Float16 vectors are copied into memory in the type of the first pass, up to 3 GB of them; more,
    and int8 and binary vectors, are read from the mapped file block by block.
    """

    def __init__(self, store: TokenVectors, dtype: torch.dtype | None = None) -> None:
        """Open with a first pass in ``dtype``; None picks by the processor."""
        self._store = store
        dtype = dtype or (torch.bfloat16 if has_fast_bfloat16() else torch.float32)
        self._first_pass: PositionMajor | _StreamedBounds = _StreamedBounds(store, dtype)
        copied_bytes = store.n_vectors * store.dimension * dtype.itemsize
        if store.header.dtype == "float16" and copied_bytes <= _COPY_LIMIT_BYTES:
            self._first_pass = PositionMajor(store, dtype)

    @property
    def size_bytes(self) -> int:
        """Of memory beside the store."""
        return self._first_pass.size_bytes

    def rank(self, queries: Sequence[FloatArray], table: UnitTable, k: int) -> list[Ranking]:
        """Return the exact best ``k`` documents of each query."""
        found: list[Ranking] = []
        for first in range(0, len(queries), _QUERIES_AT_ONCE):
            found += self._rank_block(queries[first : first + _QUERIES_AT_ONCE], table, k)
        return found

    def _rank_block(self, queries: Sequence[FloatArray], table: UnitTable, k: int) -> list[Ranking]:
        """Score the likeliest units, then every unit that may reach the k-th best of those."""
        bounds = self._first_pass.bounds(queries)
        likely = [_likeliest(one, table, k) for one in bounds]
        scores = score(queries, self._store, likely)
        floors = [
            _kth_document(its, table.rows_of_units(units), k) - 3 * noise(query)
            for query, units, its in zip(queries, likely, scores, strict=True)
        ]
        rest = [
            np.setdiff1d(np.flatnonzero((bound >= floor) & np.isfinite(bound)), units)
            for bound, floor, units in zip(bounds, floors, likely, strict=True)
        ]
        more = score(queries, self._store, rest)
        return [
            self._top(query, np.append(one, other), np.append(first, second), table, k)
            for query, one, other, first, second in zip(
                queries, likely, rest, scores, more, strict=True
            )
        ]

    def _top(
        self,
        query: FloatArray,
        units: NDArray[np.intp],
        scores: FloatArray,
        table: UnitTable,
        k: int,
    ) -> Ranking:
        # Settling near-ties takes long, and counts only among those that can still be in the top.
        near = scores >= _kth_document(scores, table.rows_of_units(units), k) - 3 * noise(query)
        units = units[near]
        return top_documents(settled(query, self._store, units, scores[near]), units, table, k)


class _StreamedBounds:
    """Bounds from vectors that stay on disk, of length 1 to a hundredth."""

    size_bytes = 0

    def __init__(self, store: TokenVectors, dtype: torch.dtype) -> None:
        self._vectors = StreamedVectors(store, dtype)
        self._begin = np.asarray(store.begin)
        # Codes of int8 and binary vectors are small whole numbers, which no type rounds.
        codes = store.header.dtype != "float16"
        self._error = RoundingError(
            dtype,
            store.dimension,
            longest=1.01,
            farthest=0.0 if codes else 1.01 * torch.finfo(dtype).eps / 2,
            scaled=codes,
        )

    def bounds(self, queries: Sequence[FloatArray]) -> FloatArray:
        """See :meth:`PositionMajor.bounds`."""
        errors = np.array([self._error.of(query) for query in queries], dtype=np.float32)
        return maxsim(queries, self._vectors, self._begin) + errors[:, None]


def _likeliest(bounds: FloatArray, table: UnitTable, k: int) -> NDArray[np.intp]:
    """Units of the highest bounds, of ``k`` documents at least where so many have vectors."""
    documents = table.fold(bounds)
    cut = max(0, len(documents) - k)
    kth = np.partition(documents, cut)[cut]
    return np.flatnonzero((bounds >= kth) & np.isfinite(bounds))


def _kth_document(scores: FloatArray, rows: NDArray[np.integer], k: int) -> float:
    """The k-th best document's score, where (n,) units of (n,) documents score so; else −inf."""
    distinct, place = np.unique(rows, return_inverse=True)
    if len(distinct) < k:
        return -np.inf
    best = np.full(len(distinct), -np.inf, dtype=np.float32)
    np.maximum.at(best, place, scores)
    return float(np.partition(best, len(best) - k)[len(best) - k])
