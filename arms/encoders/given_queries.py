"""Query vectors that a caller has made already, in place of making them again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arms.encoders.query_encoding import QueryEncoding
from arms.encoders.unit_encoder import Encoded, FloatArray, UnitEncoder
from arms.records import Unit

_SHORTEST = 1e-12
"""Shorter vectors are divided by this, as ``torch.nn.functional.normalize`` does."""


class QueryVectors:
    """Vectors of some queries, and how they were made. Made for one search, then dropped.

    Args:
        encoding: how.
        queries: n texts.
        rows: (n, d) float32, of any length.
        tokens: n, how many tokens of each query went in.
    """

    def __init__(
        self,
        encoding: QueryEncoding,
        queries: Sequence[str],
        rows: FloatArray,
        tokens: Sequence[int],
    ) -> None:
        self.encoding = encoding
        self._row_of = {query: (rows[row], tokens[row]) for row, query in enumerate(queries)}
        self.taken = 0
        """How many vectors were handed out so far."""

    def take(self, query: str, encoding: QueryEncoding) -> FloatArray | None:
        """(d,) of length 1: what ``encoding`` makes of the query; None where that may differ."""
        row, tokens = self._row_of.get(query, (None, 0))
        # A text encoder strips its texts before it reads them, and not every tokeniser does.
        if row is None or query != query.strip():
            return None
        if not self.encoding.same_vector(encoding, tokens):
            return None
        self.taken += 1
        unit: FloatArray = row / max(np.linalg.norm(row), np.float32(_SHORTEST))
        return unit


class GivenQueries(UnitEncoder):
    """An encoder that takes the query vectors it may from ``given`` and makes the others.

    Args:
        encoder: the encoder itself; it states its ``query_encoding``.
        given: vectors of the queries to come.
    """

    def __init__(self, encoder: UnitEncoder, given: QueryVectors) -> None:
        self._encoder, self._given = encoder, given
        self.query_encoding = encoder.query_encoding

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._encoder.dimension

    def encode_units(self, units: Sequence[Unit], batch_size: int = 32) -> Encoded:
        """As the encoder itself."""
        return self._encoder.encode_units(units, batch_size)

    def encode_queries(self, queries: Sequence[str], batch_size: int = 32) -> list[FloatArray]:
        """One (1, d) array per query, in order."""
        encoding = self.query_encoding
        found = [None if encoding is None else self._given.take(one, encoding) for one in queries]
        missing = [one for one, row in zip(queries, found, strict=True) if row is None]
        made = iter(self._encoder.encode_queries(missing, batch_size) if missing else ())
        return [next(made) if row is None else row[None] for row in found]
