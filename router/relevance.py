"""Which of the probes' documents are relevant, and what nDCG that makes expected of each list.

With ``g`` a document's share of the query's ideal gain, ``grade / IDCG@k``, a list's quality is
``nDCG@k = Σ_r g(d_r) / log2(1 + r)`` over its first k ranks r. A mean of sums is a sum of means:
the expected nDCG of every list seen follows from one model of ``E[g | what is seen]``.

Beside what the probes tell of a document (:mod:`router.candidates`) the model reads its past: for
which training queries it was a candidate too, how near those are, and what it gained there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import FloatArray
from router.boosters import Boosters
from router.candidates import Candidates, candidate_columns, candidates
from router.policies.files import (
    POLICY,
    check_numbers,
    read_arrays,
    read_held,
    sha256_of,
    write_arrays,
)
from router.policy import Embeddings
from router.probe_features import LIST_FEATURES, Lists
from router.query_features import SURFACE_FEATURES
from router.query_vectors import QueryVectors

PAST_COLUMNS = (
    "nearest_where_relevant",
    "nearest_where_not",
    "weighted_gain",
    "log_weight",
    "mean_gain",
    "queries",
)
"""Columns of :meth:`Past.columns`, in order."""
PLAIN_COLUMNS = ("mean_gain", "queries")
"""Columns of :meth:`Past.plain_columns`, in order."""
_ARRAYS = ("documents", "starts", "queries", "gains")
_PAST = "past.safetensors"


@dataclass(frozen=True)
class Past:
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
    def of(cls, seen: Candidates, gains: FloatArray) -> Past:
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
        groups: NDArray[np.intp] | None = None,
    ) -> FloatArray:
        """(m, len(PLAIN_COLUMNS)): as :meth:`columns`, where no query vector is read.

        Args:
            documents: (m,) keys.
            rows: (m,) each candidate's query.
            groups: (N,) where those are the N training queries: a query's own group tells nothing.
        """
        pairs, places = self._pairs(documents)
        if groups is not None:
            told = groups[rows[pairs]] != groups[self.queries[places]]
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


@dataclass(frozen=True)
class RelevanceModel:
    """Expects each candidate's gain, and from it each probe's nDCG@k; may order them too."""

    booster: Boosters
    """A model of the gain; where candidates are to be ordered, another whose scores do that."""
    past: Past
    k: int
    """Of nDCG@k."""
    top: int
    """How many documents of each list are candidates: at least k."""
    order_weight: float = 0.0
    """Of the second model's scores beside the log odds of the gain, see :meth:`order`."""

    @property
    def learns_documents(self) -> bool:
        """Whether it has a past to look documents up in."""
        return bool(len(self.past.documents))

    def expected(
        self,
        probes: Sequence[str],
        lists: Mapping[str, Lists],
        of_query: FloatArray,
        vectors: QueryVectors,
        embeddings: Embeddings,
    ) -> FloatArray:
        """(n, probes) expected nDCG@k of each probe's list; see :meth:`expected_of`.

        Arguments as for :meth:`predict`.
        """
        asked, predicted = self.predict(probes, lists, of_query, vectors, embeddings)
        return self.expected_of(probes, lists, asked, predicted[:, 0])

    def expected_of(
        self,
        probes: Sequence[str],
        lists: Mapping[str, Lists],
        asked: Candidates,
        gains: FloatArray,
    ) -> FloatArray:
        """(n, probes) nDCG@k of each list where (m,) candidates gain this much; 0 of an empty one.

        A sum of estimates may lie a little above 1; cut there, lists would tie.
        """
        known = np.append(gains, 0.0)
        discounts = 1.0 / np.log2(np.arange(self.k) + 2.0)
        found = [
            (known[asked.at(lists[probe].documents[:, : self.k])] * discounts).sum(axis=1)
            for probe in probes
        ]
        return np.column_stack(found)

    def predict(
        self,
        probes: Sequence[str],
        lists: Mapping[str, Lists],
        of_query: FloatArray,
        vectors: QueryVectors | None,
        embeddings: Embeddings | None,
    ) -> tuple[Candidates, FloatArray]:
        """Return the candidates, and (m, models) what the models say of each.

        Args:
            probes: in the order of the columns.
            lists: what they found for n queries.
            of_query: (n, features) :func:`router.quality_model.query_columns`.
            vectors: of the training queries; None where no query vector is read.
            embeddings: (n, d) the queries' vectors; likewise.
        """
        asked = candidates(probes, lists, self.top)
        past = past_columns(self.past, asked, vectors, embeddings)
        return asked, self.booster.predict(relevance_columns(asked, of_query, past))

    def order(self, predicted: FloatArray) -> FloatArray:
        """(m,) scores that put candidates in order, from (m, 2) of :meth:`predict`.

        Log odds of the gain, which is fitted point by point, and the scores of the model that is
        trained to rank, added: together they order better than either.
        """
        gain = predicted[:, 0].clip(1e-9, 1.0 - 1e-9)
        return np.asarray(np.log(gain / (1.0 - gain)) + self.order_weight * predicted[:, 1])

    def save(self, folder: Path) -> dict[str, Any]:
        """Write arrays and the booster into the new ``folder``; return what :meth:`read` needs."""
        folder.mkdir()
        write_arrays(folder / _PAST, {name: getattr(self.past, name) for name in _ARRAYS})
        return {
            "boosters": self.booster.save(folder),
            "past": sha256_of((folder / _PAST).read_bytes()),
            "k": self.k,
            "top": self.top,
            "order_weight": self.order_weight,
        }

    @classmethod
    def read(cls, folder: Path, described: Mapping[str, Any], features: int) -> RelevanceModel:
        """Read what :meth:`save` wrote; raise ``RouterError`` where it is damaged."""
        place = f"{folder.parent / POLICY} ({folder.name})"
        check_numbers(place, described, {"k": 1, "top": 1}, finite=("order_weight",))
        check_numbers(place, described, {"top": described["k"]})
        if "past" in described:  # routers trained before it was held have no hash of it
            read_held(folder / _PAST, described["past"])
        arrays = read_arrays(folder / _PAST, dict.fromkeys(_ARRAYS, (None,)))
        booster = Boosters.read(folder, described["boosters"], features)
        numbers = described["k"], described["top"], float(described["order_weight"])
        return cls(booster, Past(**arrays), *numbers)


def past_columns(
    past: Past,
    asked: Candidates,
    vectors: QueryVectors | None,
    embeddings: Embeddings | None,
    groups: NDArray[np.intp] | None = None,
) -> FloatArray:
    """(m, len(PAST_COLUMNS)) of the candidates ``asked``; PLAIN_COLUMNS without query vectors.

    Args:
        past: of the training queries.
        asked: candidates of n queries.
        vectors: of the training queries; None where none is read.
        embeddings: (n, d) the queries' vectors; likewise.
        groups: (N,) where the n queries are the N training queries themselves: the past of a query
            is without those of its own group.
    """
    if vectors is None or embeddings is None:
        return past.plain_columns(asked.documents, asked.rows, groups)
    found = np.zeros((len(asked.rows), len(PAST_COLUMNS)))
    for rows, cosines in vectors.similarities(embeddings):
        if groups is not None:
            cosines = np.where(groups[rows, None] == groups, -np.inf, cosines)
        begin, end = np.searchsorted(asked.rows, [rows.start, rows.stop])
        found[begin:end] = past.columns(
            asked.documents[begin:end],
            asked.rows[begin:end] - rows.start,
            cosines,
            vectors.temperature,
        )
    return found


def relevance_columns(asked: Candidates, of_query: FloatArray, past: FloatArray) -> FloatArray:
    """(m, features) what a :class:`RelevanceModel` reads of the candidates ``asked``.

    ``of_query`` (n, features) :func:`router.quality_model.query_columns`, ``past`` as of
    :func:`past_columns`.
    """
    return np.hstack([asked.features, of_query[asked.rows], past])


def relevance_count(components: int, probes: Sequence[str], with_vectors: bool = True) -> int:
    """Columns that a :class:`RelevanceModel` reads."""
    of_query = len(LIST_FEATURES) * len(probes) + len(SURFACE_FEATURES) + components
    past = PAST_COLUMNS if with_vectors else PLAIN_COLUMNS
    return len(candidate_columns(probes)) + of_query + len(past)
