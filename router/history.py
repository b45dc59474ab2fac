"""Document history: for which training queries a document was a candidate, and what it gained.

Questions are of two kinds: about documents that earlier questions were about, and about others.
Of the first kind history tells much; of the second it misleads, since whatever was relevant before
isn't wanted now. Which kind a question is shows in its whole list of candidates: how near to it
past questions are, how much of the list they found, whether what leads the list was relevant to
any. So each candidate's history stands beside that of its list (:data:`HISTORY_COLUMNS`), and
models learn from training queries of both kinds (:func:`training.relevance_fit.hidden_from`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from router.candidates import Candidates
from router.policy import Embeddings
from router.query_vectors import QueryVectors

Hidden = Callable[[slice], BoolArray]
"""Rows of the queries asked → (rows, N) True where a training query mustn't tell."""
PAST_COLUMNS = (
    "nearest_where_relevant",
    "nearest_where_not",
    "weighted_gain",
    "log_weight",
    "mean_gain",
    "queries",
)
"""Columns of :meth:`DocumentHistory.columns`, in order."""
PLAIN_COLUMNS = ("mean_gain", "queries")
"""Columns of :meth:`DocumentHistory.plain_columns`, in order."""
OF_THE_LIST = (
    "told_share",
    "relevant_share",
    "best_gain",
    "behind_best_gain",
    "leader_gain",
)
"""Columns that set a candidate's history beside that of its list, in order. A gain is weighted by
nearness where query vectors are read, and a mean otherwise."""
HISTORY_COLUMNS = (
    *PAST_COLUMNS,
    *OF_THE_LIST,
    "nearest_query",
    "best_nearest",
    "behind_best_nearest",
    "leader_nearest",
)
"""Columns of :func:`history_of` where query vectors are read; ``nearest`` is short for the first of
:data:`PAST_COLUMNS`."""
PLAIN_HISTORY_COLUMNS = (*PLAIN_COLUMNS, *OF_THE_LIST)
"""Likewise where none are read."""
_BLOCK_ROWS = 512
"""Queries whose hidden training queries are held at a time."""


@dataclass(frozen=True)
class History:
    """What training tells of m candidates."""

    columns: FloatArray
    """(m, len(HISTORY_COLUMNS)), or (m, len(PLAIN_HISTORY_COLUMNS)) where no query vectors are
    read. NaN where a document has no history of its own."""
    told: BoolArray
    """(m,) whether the document was a candidate of any training query that may tell."""


@dataclass(frozen=True)
class DocumentHistory:
    """The candidates of N training queries, by document; D documents, p pairs."""

    documents: NDArray[np.int64]
    """(D,) keys, ascending."""
    starts: NDArray[np.int64]
    """(D + 1,) where each document's pairs begin."""
    queries: NDArray[np.int32]
    """(p,) training queries, as rows of :attr:`router.query_vectors.QueryVectors.neighbours`."""
    gains: NDArray[np.float32]
    """(p,) the document's share of that query's ideal gain, in [0, 1]."""

    @classmethod
    def of(cls, seen: Candidates, gains: FloatArray) -> DocumentHistory:
        """Turn the candidates of training queries, and their (m,) gains, into a table."""
        order = np.argsort(seen.documents, kind="stable")
        documents, starts = np.unique(seen.documents[order], return_index=True)
        return cls(
            documents,
            np.append(starts, len(order)).astype(np.int64),
            seen.rows[order].astype(np.int32),
            gains[order].astype(np.float32),
        )

    def columns(
        self,
        documents: NDArray[np.int64],
        rows: NDArray[np.intp],
        cosines: NDArray[np.float32],
        temperature: float,
    ) -> FloatArray:
        """(m, len(PAST_COLUMNS)) of m candidates; NaN for a document that has no past.

        Args:
            documents: (m,) keys.
            rows: (m,) row of ``cosines`` of each candidate's query.
            cosines: (n, N) to the training queries; −inf for those that mustn't tell.
            temperature: a training query at cosine c has weight ``exp((c − 1) / temperature)``.
        """
        pairs, places = self._pairs(documents)
        near = cosines[rows[pairs], self.queries[places]].astype(np.float64)
        told = np.isfinite(near)
        pairs, near, gains = pairs[told], near[told], self.gains[places[told]].astype(np.float64)
        count, m = np.bincount(pairs, minlength=len(documents)), len(documents)
        weights = np.exp((near - 1.0) / temperature)
        weight = np.bincount(pairs, weights, m)
        nearest = []
        for wanted in (gains > 0, gains <= 0):
            best = np.zeros(m)
            np.maximum.at(best, pairs[wanted], near[wanted])
            nearest.append(best)
        with np.errstate(divide="ignore", invalid="ignore"):
            weighted = np.bincount(pairs, weights * gains, m) / weight
            mean = np.bincount(pairs, gains, m) / count
            found = np.column_stack([*nearest, weighted, np.log(weight), mean, count])
        found[count == 0] = np.nan
        return found

    def plain_columns(
        self,
        documents: NDArray[np.int64],
        rows: NDArray[np.intp],
        hidden: Hidden | None = None,
    ) -> FloatArray:
        """(m, len(PLAIN_COLUMNS)): as :meth:`columns`, where no query vector is read.

        Args:
            documents: (m,) keys.
            rows: (m,) each candidate's query, ascending.
            hidden: which training queries mustn't tell; None: all may.
        """
        pairs, places = self._pairs(documents)
        if hidden is not None:
            told = ~_at(hidden, rows[pairs], self.queries[places])
            pairs, places = pairs[told], places[told]
        count, m = np.bincount(pairs, minlength=len(documents)), len(documents)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.bincount(pairs, self.gains[places].astype(np.float64), m) / count
        found = np.column_stack([mean, count])
        found[count == 0] = np.nan
        return found

    def _pairs(self, documents: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(pairs,) candidate, and (pairs,) place in ``queries``, of everything that is known."""
        place = np.minimum(np.searchsorted(self.documents, documents), len(self.documents) - 1)
        known = self.documents[place] == documents
        begin = self.starts[place]
        counts = np.where(known, self.starts[place + 1] - begin, 0)
        pairs = np.repeat(np.arange(len(documents)), counts)
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return pairs, np.asarray(within + np.repeat(begin, counts), dtype=np.intp)


def history_of(
    past: DocumentHistory,
    asked: Candidates,
    leading: FloatArray,
    vectors: QueryVectors | None,
    embeddings: Embeddings | None,
    hidden: Hidden | None = None,
) -> History:
    """Return what training tells of the candidates ``asked``.

    Args:
        past: of the training queries.
        asked: candidates of n queries.
        leading: (m,) the highest of a query is what leads its list before history is looked at.
        vectors: of the training queries; None where none is read.
        embeddings: (n, d) the queries' vectors; likewise.
        hidden: which training queries mustn't tell; None: all may.
    """
    if vectors is None or embeddings is None:
        raw = past.plain_columns(asked.documents, asked.rows, hidden)
        told, gains = ~np.isnan(raw[:, 0]), np.nan_to_num(raw[:, 0])
        return History(np.hstack([raw, _of_the_list(told, gains, gains, asked, leading)]), told)
    raw = np.zeros((len(asked.rows), len(PAST_COLUMNS)))
    nearest_query = np.zeros(len(embeddings))
    for rows, cosines in vectors.similarities(embeddings):
        if hidden is not None:
            cosines = np.where(hidden(rows), np.float32(-np.inf), cosines)
        nearest_query[rows] = np.maximum(cosines.max(axis=1, initial=0.0), 0.0)
        begin, end = np.searchsorted(asked.rows, [rows.start, rows.stop])
        raw[begin:end] = past.columns(
            asked.documents[begin:end],
            asked.rows[begin:end] - rows.start,
            cosines,
            vectors.temperature,
        )
    told = ~np.isnan(raw[:, 0])
    nearest, _, gains, _, mean, _ = np.nan_to_num(raw).T
    best = _best(nearest, asked.rows)
    columns = [
        raw,
        _of_the_list(told, mean, gains, asked, leading),
        nearest_query[asked.rows],
        best,
        nearest - best,
        _leaders(nearest, asked.rows, leading),
    ]
    return History(np.column_stack(columns), told)


def _of_the_list(
    told: BoolArray, mean: FloatArray, gains: FloatArray, asked: Candidates, leading: FloatArray
) -> FloatArray:
    """(m, len(OF_THE_LIST)) from (m,) of each candidate, 0 where it has no history."""
    rows = asked.rows
    count = np.bincount(rows)
    shares = [(np.bincount(rows, one) / np.maximum(count, 1))[rows] for one in (told, mean > 0)]
    best = _best(gains, rows)
    return np.column_stack([*shares, best, gains - best, _leaders(gains, rows, leading)])


def _best(values: FloatArray, rows: NDArray[np.intp]) -> FloatArray:
    """(m,) the highest of each candidate's query; values are at least 0."""
    best = np.zeros(rows[-1] + 1 if len(rows) else 0)
    np.maximum.at(best, rows, values)
    return best[rows]


def _leaders(values: FloatArray, rows: NDArray[np.intp], leading: FloatArray) -> FloatArray:
    """(m,) that of the candidate which leads its query's list, the highest where several do."""
    first = np.full(rows[-1] + 1 if len(rows) else 0, -np.inf)
    np.maximum.at(first, rows, leading)
    return _best(np.where(leading == first[rows], values, 0.0), rows)


def _at(hidden: Hidden, rows: NDArray[np.intp], queries: NDArray[np.int32]) -> BoolArray:
    """(p,) whether the training query is hidden from the row; ``rows`` ascending."""
    found = np.zeros(len(rows), dtype=bool)
    for begin in range(0, int(rows[-1]) + 1 if len(rows) else 0, _BLOCK_ROWS):
        mine = slice(*np.searchsorted(rows, [begin, begin + _BLOCK_ROWS]).tolist())
        if mine.stop > mine.start:
            block = hidden(slice(begin, int(rows[mine.stop - 1]) + 1))
            found[mine] = block[rows[mine] - begin, queries[mine]]
    return found
