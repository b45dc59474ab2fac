"""Finding queries in the labels by dataset and query id, a column at a time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.evaluation import IntArray
from oracle.labels import Labels


class QueryPlaces:
    """Rows of the labels by (dataset, query id)."""

    def __init__(self, labels: Labels) -> None:
        self._datasets = pa.array(sorted(set(labels.datasets)), pa.string())
        self._ids = pa.array(sorted(set(labels.query_ids)), pa.string())
        self._seen: tuple[pa.Array, IntArray] | None = None
        keys = self._keys(pa.array(labels.datasets), pa.array(labels.query_ids))
        self._order = np.argsort(keys, kind="stable")
        self._sorted = keys[self._order]

    def rows_of(
        self, datasets: pa.Array | pa.ChunkedArray, query_ids: pa.Array | pa.ChunkedArray
    ) -> IntArray:
        """(n,) row of the labels of each (dataset, query id), as text or dictionary; −1: none."""
        keys = self._keys(datasets, query_ids)
        if not len(self._sorted):
            return np.full(len(keys), -1, dtype=np.intp)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[place] == keys, self._order[place], -1).astype(np.intp)

    def _keys(
        self, datasets: pa.Array | pa.ChunkedArray, query_ids: pa.Array | pa.ChunkedArray
    ) -> IntArray:
        major, minor = place_of(datasets, self._datasets), self._ids_of(query_ids)
        return np.where((major < 0) | (minor < 0), -1, major * len(self._ids) + minor)

    def _ids_of(self, query_ids: pa.Array | pa.ChunkedArray) -> IntArray:
        """Like :func:`place_of`; a dictionary that comes again and again is looked up once."""
        if not isinstance(query_ids, pa.DictionaryArray):
            return place_of(query_ids, self._ids)
        if self._seen is None or not self._seen[0].equals(query_ids.dictionary):
            self._seen = (query_ids.dictionary, place_of(query_ids.dictionary, self._ids))
        return _of_entries(query_ids, self._seen[1])


def place_of(texts: pa.Array | pa.ChunkedArray, values: pa.Array) -> IntArray:
    """(n,) place of each text in ``values``; −1 where it is null or not among them."""
    if isinstance(texts, pa.ChunkedArray):
        chunks = [place_of(chunk, values) for chunk in texts.chunks]
        return np.concatenate(chunks) if chunks else np.zeros(0, dtype=np.intp)
    if pa.types.is_dictionary(texts.type):
        return _of_entries(texts, place_of(texts.dictionary, values))
    found = pc.fill_null(pc.index_in(texts.cast(pa.string()), value_set=values), -1)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.intp)


def _of_entries(texts: pa.DictionaryArray, entries: IntArray) -> IntArray:
    """(n,) what ``entries`` holds for each row's dictionary entry; −1 for null."""
    indices = pc.fill_null(texts.indices, len(entries)).to_numpy(zero_copy_only=False)
    return np.asarray(np.append(entries, -1)[indices], dtype=np.intp)
