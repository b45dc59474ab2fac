"""Which units belong to which document, and the exact top documents of scored units.

A :class:`UnitTable` is five small arrays in an index folder. Documents are numbered by *row*, in
the order of the corpus; the units of row ``r`` are ``unit_begin[r] … unit_begin[r + 1] − 1``, in
the order in which they were indexed. A document's score is the maximum over its units. Ties break
by ascending document id, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from arms.errors import CorpusError
from arms.records import Ranking, Unit

FloatArray = NDArray[np.floating]
RowArray = NDArray[np.integer]

EMPTY = Ranking((), ())

_MOST_NAMES_IN_MEMORY = 1_000_000
_FILES = ("doc_id_bytes", "doc_id_begin", "unit_begin", "tie_rank", "by_id")


class UnitTable:
    """The units and documents of one index, opened memory-mapped."""

    def __init__(self, folder: Path) -> None:
        arrays = {
            name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
            for name in _FILES
        }
        self._id_bytes = memoryview(arrays["doc_id_bytes"])
        self._id_begin = np.asarray(arrays["doc_id_begin"])
        self.unit_begin: NDArray[np.int64] = np.asarray(arrays["unit_begin"])
        """(documents + 1,) first unit of each row; the last entry is the number of units."""
        self.tie_rank: NDArray[np.int64] = np.asarray(arrays["tie_rank"])
        """(documents,) place of each row in ascending order of document id."""
        self._by_id: NDArray[np.int64] = np.asarray(arrays["by_id"])
        self.n_documents = len(self.tie_rank)
        self.n_units = int(self.unit_begin[-1])
        self.one_unit_each = self.n_units == self.n_documents
        self.size_bytes = sum(array.nbytes for array in arrays.values())
        self._named: list[str] = []

    @classmethod
    def write(cls, folder: Path, units: Iterable[Unit], *, may_be_empty: bool = False) -> UnitTable:
        """Walk ``units`` once, write the table's files into ``folder`` and open them.

        Raises:
            CorpusError: there are no units and there should be some, or those of one document
                don't follow one another.
        """
        doc_ids: list[str] = []
        unit_counts: list[int] = []
        for unit in units:
            if not doc_ids or unit.doc_id != doc_ids[-1]:
                doc_ids.append(unit.doc_id)
                unit_counts.append(0)
            unit_counts[-1] += 1
        if not (doc_ids or may_be_empty):
            raise CorpusError(
                "the corpus has no text to index; give at least one document with text"
            )
        for name, array in _arrays(doc_ids, unit_counts).items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        return cls(folder)

    def doc_id(self, row: int) -> str:
        """Return the document id of a row."""
        begin, end = self._id_begin[row], self._id_begin[row + 1]
        return self._id_bytes[begin:end].tobytes().decode("utf-8", "surrogatepass")

    def row_of(self, doc_id: str) -> int:
        """Return the row of a document; raise ``KeyError`` when the table lacks it."""
        low, high = 0, self.n_documents
        while low < high:
            middle = (low + high) // 2
            found = self.doc_id(int(self._by_id[middle]))
            if found == doc_id:
                return int(self._by_id[middle])
            low, high = (middle + 1, high) if found < doc_id else (low, middle)
        raise KeyError(doc_id)

    def units_of(self, row: int) -> range:
        """Return the units of a row, in reading order."""
        return range(int(self.unit_begin[row]), int(self.unit_begin[row + 1]))

    def rows_of_units(self, units: RowArray) -> NDArray[np.int64]:
        """(n,) units → (n,) rows of their documents."""
        if self.one_unit_each:
            return np.asarray(units, dtype=np.int64)
        return np.searchsorted(self.unit_begin, units, side="right") - 1

    def fold(self, unit_scores: FloatArray) -> FloatArray:
        """(units,) scores of every unit → (documents,) maximum per row."""
        if self.one_unit_each:
            return unit_scores
        return np.maximum.reduceat(unit_scores, self.unit_begin[:-1])

    def ranking(self, rows: RowArray, scores: FloatArray) -> Ranking:
        """Name ordered rows; ``scores`` run parallel to them."""
        names = self._names()
        found = rows.tolist()
        doc_ids = [names[row] for row in found] if names else map(self.doc_id, found)
        return Ranking(tuple(doc_ids), tuple(scores.tolist()))

    def _names(self) -> list[str]:
        """All document ids, decoded at the first ranking; none where they would fill memory."""
        if not self._named and self.n_documents <= _MOST_NAMES_IN_MEMORY:
            self._named = [self.doc_id(row) for row in range(self.n_documents)]
        return self._named


def _arrays(doc_ids: list[str], unit_counts: list[int]) -> dict[str, NDArray]:
    if len(set(doc_ids)) != len(doc_ids):
        raise CorpusError(
            "the units of a document must follow one another and ids must be unique; "
            f"got {len(doc_ids)} groups of units for {len(set(doc_ids))} document ids"
        )
    encoded = [doc_id.encode("utf-8", "surrogatepass") for doc_id in doc_ids]
    by_id = np.array(sorted(range(len(doc_ids)), key=doc_ids.__getitem__), dtype=np.int64)
    tie_rank = np.empty(len(doc_ids), dtype=np.int64)
    tie_rank[by_id] = np.arange(len(doc_ids))
    return {
        "doc_id_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "doc_id_begin": np.cumsum([0, *map(len, encoded)], dtype=np.int64),
        "unit_begin": np.cumsum([0, *unit_counts], dtype=np.int64),
        "tie_rank": tie_rank,
        "by_id": by_id,
    }


def top_positions(
    scores: FloatArray, tie_rank: RowArray, k: int, above: float = -np.inf
) -> NDArray[np.int64]:
    """Positions of the ``k`` highest of (n,) scores: score descending, tie rank ascending.

    Only scores greater than ``above`` count. Exact where ties straddle the cut.
    """
    threshold = -np.inf
    if len(scores) > k:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
    if threshold > above:
        candidates = np.flatnonzero(scores >= threshold)
    else:
        candidates = np.flatnonzero(scores > above)
    order = np.lexsort((tie_rank[candidates], -scores[candidates]))
    return candidates[order[:k]]


def top_documents(unit_scores: FloatArray, units: RowArray, table: UnitTable, k: int) -> Ranking:
    """Fold some scored units ((n,) and (n,)) to the best ``k`` distinct documents, by maximum.

    Units may come in any order. The result is exact for the units given: whether enough of them
    were fetched is for the caller (see :func:`search_documents`).
    """
    scores = np.asarray(unit_scores)
    rows = table.rows_of_units(np.asarray(units))
    order = np.lexsort((table.tie_rank[rows], -scores))
    _, first = np.unique(rows[order], return_index=True)
    kept = order[np.sort(first)[:k]]
    return table.ranking(rows[kept], scores[kept])


UnitSearch = Callable[[NDArray[np.intp], int], tuple[FloatArray, RowArray]]
"""(positions of m queries, depth) → (m, depth) scores descending and (m, depth) units; a unit of
−1 marks a place that the index could not fill."""


def search_documents(
    search: UnitSearch,
    n_queries: int,
    table: UnitTable,
    k: int,
    tolerance: float = 0.0,
    first_depth: int | None = None,
) -> list[Ranking]:
    """Fetch units, deeper and deeper, until each query's best ``k`` documents are certain.

    They are when the k-th document scores more than ``tolerance`` above the last unit fetched (no
    unit left behind can reach or tie with it), or when the index has no more units. The depth
    doubles for the queries that aren't certain yet.
    """
    found: list[Ranking] = [EMPTY] * n_queries
    open_queries = np.arange(n_queries)
    depth = min(table.n_units, first_depth or _first_depth(table, k))
    while len(open_queries):
        scores, units = search(open_queries, depth)
        undecided = []
        for position, query in enumerate(open_queries.tolist()):
            real = units[position] >= 0
            row_scores, row_units = scores[position][real], units[position][real]
            ranking = top_documents(row_scores, row_units, table, k)
            found[query] = ranking
            exhausted = depth >= table.n_units or not real.all()
            if not exhausted and not _certain(ranking, float(row_scores.min()), k, tolerance):
                undecided.append(query)
        open_queries = np.array(undecided, dtype=np.intp)
        depth = min(table.n_units, 2 * depth)
    return found


def _first_depth(table: UnitTable, k: int) -> int:
    """Room for a few ties, and for documents of average length."""
    units_per_document = table.n_units / max(1, table.n_documents)
    return int(np.ceil(k * min(units_per_document, 4.0))) + 8


def _certain(ranking: Ranking, last_fetched: float, k: int, tolerance: float) -> bool:
    return len(ranking.scores) >= k and ranking.scores[k - 1] > last_fetched + tolerance
