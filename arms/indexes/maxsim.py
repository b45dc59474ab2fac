"""MaxSim, exactly: the sum, over a query's tokens, of the best inner product with a unit's tokens.

    s(q, d) = Σ_i max_j ⟨q_i, d_j⟩        (Khattab and Zaharia, ColBERT, SIGIR 2020)

Units lie one after another, unpadded, so a unit's maximum is taken over its own tokens and a
negative one stays negative. Blocks bound the memory. Similarities are computed with tokens of
units along the contiguous axis: a segment maximum over it is about eight times faster than over
the other axis, and the product itself costs the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from arms.indexes.token_vectors import TokenVectors

FloatArray = NDArray[np.float32]

_BLOCK_SIMILARITIES = 2_000_000
"""Similarities held at a time: 8 MB in float32, written into the same memory block after block.
Fresh memory for every block cost more than twice the product itself in page faults."""
_BLOCK_VECTORS = 32_768
_RESCORED_VECTORS = 1024
"""1.5 MB of float32 at 384 numbers: a block that stays in the cache."""
_QUERY_TOKENS_AT_ONCE = 512


def maxsim(
    queries: Sequence[FloatArray],
    vectors: NDArray | torch.Tensor | StreamedVectors,
    begin: NDArray[np.integer],
) -> FloatArray:
    """Score units against queries.

    Args:
        queries: one (tokens, d) array per query.
        vectors: (vectors, d) of all units, in memory or streamed; bfloat16 makes the products
            bfloat16, any other type float32.
        begin: (n + 1,) first vector of each unit in ``vectors``.

    Returns:
        (m, n) float32. −inf where the unit or the query has no token.
    """
    scores = np.full((len(queries), len(begin) - 1), -np.inf, dtype=np.float32)
    filled = np.flatnonzero(np.diff(begin))
    stored = vectors if isinstance(vectors, StreamedVectors) else HeldVectors(vectors)
    products = _Products(stored.dtype)
    for place in query_blocks([len(query) for query in queries], _QUERY_TOKENS_AT_ONCE):
        tokens = np.concatenate([queries[one] for one in place])
        starts = np.cumsum([0, *[len(queries[one]) for one in place[:-1]]])
        for units in _unit_blocks(begin, filled, len(tokens)):
            first, last = begin[units[0]], begin[units[-1] + 1]
            similarity = products(tokens, *stored.block(first, last))
            best = np.maximum.reduceat(similarity, begin[units] - first, axis=1)
            scores[np.array(place)[:, None], units] = np.add.reduceat(best, starts, axis=0)
    return scores


class HeldVectors:
    """Vectors in memory."""

    def __init__(self, vectors: NDArray | torch.Tensor) -> None:
        self._matrix = torch.as_tensor(vectors)
        self.dtype = self._matrix.dtype

    def block(self, first: int, last: int) -> tuple[torch.Tensor, None]:
        """(last − first, d) of them."""
        return self._matrix[first:last], None


class StreamedVectors:
    """Stored vectors that are decoded block by block, where they are used; none stays in memory."""

    def __init__(self, store: TokenVectors, dtype: torch.dtype) -> None:
        self._store = store
        self.dtype = dtype
        """In which products are computed."""

    def block(self, first: int, last: int) -> tuple[torch.Tensor, FloatArray | None]:
        """(last − first, d) codes and their (last − first,) scales, None where those are 1."""
        codes, scale = self._store.split(first, last)
        return torch.from_numpy(codes), None if self._store.header.dtype == "float16" else scale


class _Products:
    """(q, d), (t, d) and (t,) scales → (q, t) inner products as float32.

    They lie in memory that the next call reuses.
    """

    def __init__(self, dtype: torch.dtype) -> None:
        self._dtype = torch.bfloat16 if dtype == torch.bfloat16 else torch.float32
        self._product = torch.empty(0, dtype=self._dtype)
        self._widened = torch.empty(0)

    def __call__(
        self, tokens: FloatArray, block: torch.Tensor, scale: FloatArray | None = None
    ) -> FloatArray:
        products = self._products(tokens, block)
        return products if scale is None else np.multiply(products, scale, out=products)

    def _products(self, tokens: FloatArray, block: torch.Tensor) -> FloatArray:
        shape = (len(tokens), len(block))
        size = shape[0] * shape[1]
        if size > len(self._product):
            self._product = torch.empty(size, dtype=self._dtype)
        product = self._product[:size].view(shape)
        torch.mm(torch.from_numpy(tokens).to(self._dtype), block.to(self._dtype).T, out=product)
        if self._dtype == torch.float32:
            return product.numpy()
        if size > len(self._widened):
            self._widened = torch.empty(size)
        return self._widened[:size].view(shape).copy_(product).numpy()


def query_blocks(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Group positions of queries that have tokens: one query, or ``most`` tokens at most."""
    group: list[int] = []
    tokens = 0
    for position, length in enumerate(lengths):
        if length == 0:
            continue
        if group and tokens + length > most:
            yield group
            group, tokens = [], 0
        group.append(position)
        tokens += length
    if group:
        yield group


def _unit_blocks(
    begin: NDArray[np.integer], filled: NDArray[np.intp], n_tokens: int
) -> Iterator[NDArray[np.intp]]:
    """Cut the units that have vectors into runs of bounded size, one unit at least."""
    size = max(1, min(_BLOCK_VECTORS, _BLOCK_SIMILARITIES // max(1, n_tokens)))
    ends = np.asarray(begin)[filled + 1]
    first = 0
    while first < len(filled):
        limit = begin[filled[first]] + size
        last = max(first + 1, int(np.searchsorted(ends, limit, side="right")))
        yield filled[first:last]
        first = last


def rescore(
    queries: Sequence[FloatArray], store: TokenVectors, units: Sequence[NDArray[np.integer]]
) -> list[FloatArray]:
    """Exact MaxSim of some units, others for each query, as :func:`score`; near-ties are settled.

    A product's last digits depend on where in a block a unit stands. Units that score within that
    noise of one another are scored again, each alone, so that equal texts tie to the last bit.
    """
    return [
        settled(query, store, its, scores)
        for query, its, scores in zip(queries, units, score(queries, store, units), strict=True)
    ]


def score(
    queries: Sequence[FloatArray], store: TokenVectors, units: Sequence[NDArray[np.integer]]
) -> list[FloatArray]:
    """MaxSim in float32 of some units, others for each query, from their stored vectors.

    A unit that several queries ask for is decoded once.

    Returns:
        for each query its units' scores, in their order; −inf where either has no token.
    """
    if len(queries) == 1:
        return [_scored(queries[0], store, units[0])]
    return _scored_by_unit(queries, store, units)


def _scored_by_unit(
    queries: Sequence[FloatArray], store: TokenVectors, units: Sequence[NDArray[np.integer]]
) -> list[FloatArray]:
    """The same, unit after unit, against the tokens of all queries that ask for it."""
    if not queries:
        return []
    counts = [len(one) for one in units]
    asking = np.repeat(np.arange(len(queries)), counts)
    asked = np.concatenate([np.asarray(one, dtype=np.int64) for one in units])
    scores = np.full(len(asked), -np.inf, dtype=np.float32)
    lengths = np.array([len(query) for query in queries])
    pairs = np.argsort(asked, kind="stable")
    pairs = pairs[(lengths[asking] > 0)[pairs] & (np.diff(store.begin)[asked] > 0)[pairs]]
    if len(pairs):
        tokens = torch.from_numpy(np.concatenate(queries))
        first_token = np.cumsum([0, *lengths[:-1]])
        its_tokens = [first + np.arange(n) for first, n in zip(first_token, lengths, strict=True)]
        edges = np.flatnonzero(np.diff(asked[pairs])) + 1
        best = []
        for place in np.split(pairs, edges):
            rows = np.concatenate([its_tokens[one] for one in asking[place]])
            vectors = torch.from_numpy(store.of(int(asked[place[0]]))).float()
            similarity = torch.mm(tokens[torch.from_numpy(rows)], vectors.T)
            best.append(similarity.amax(dim=1))
        starts = np.cumsum([0, *lengths[asking[pairs]][:-1]])
        scores[pairs] = np.add.reduceat(torch.cat(best).numpy(), starts)
    return np.split(scores, np.cumsum(counts)[:-1])


def _scored(query: FloatArray, store: TokenVectors, units: NDArray[np.integer]) -> FloatArray:
    """(n,) MaxSim in float32, in blocks."""
    scores = np.full(len(units), -np.inf, dtype=np.float32)
    for place in _rescore_blocks(store, units):
        scores[place] = maxsim([query], *_gather(store, units[place].tolist()))[0]
    return scores


def settled(
    query: FloatArray, store: TokenVectors, units: NDArray[np.integer], scores: FloatArray
) -> FloatArray:
    """``scores`` of units, changed in place: near-ties are what each unit scores alone."""
    for place in _near_ties(scores, noise(query)).tolist():
        scores[place] = _alone(query, store.of(int(units[place])))
    return scores


def noise(query: FloatArray) -> float:
    """How far float32 scores of equal units may stray from one another."""
    return 5e-7 * len(query)


def _rescore_blocks(store: TokenVectors, units: NDArray[np.integer]) -> Iterator[NDArray[np.intp]]:
    ends = np.cumsum(store.begin[np.asarray(units) + 1] - store.begin[units])
    blocks = ends // _RESCORED_VECTORS
    for block in np.unique(blocks):
        yield np.flatnonzero(blocks == block)


def _gather(store: TokenVectors, units: list[int]) -> tuple[torch.Tensor, NDArray[np.int64]]:
    """Vectors of some units as float32, one unit after another, and where each begins."""
    parts = [store.of(unit) for unit in units]
    begin = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    vectors = torch.empty((int(begin[-1]), store.dimension))
    for first, last, part in zip(begin, begin[1:], parts, strict=False):
        vectors[first:last] = torch.from_numpy(part)
    return vectors, begin


def _near_ties(scores: FloatArray, noise: float) -> NDArray[np.intp]:
    """Positions of finite scores with another one within ``noise``."""
    order = np.argsort(scores, kind="stable")
    order = order[np.isfinite(scores[order])]
    close = np.diff(scores[order]) <= noise
    return order[np.append(close, False) | np.insert(close, 0, False)] if len(order) else order


def _alone(query: FloatArray, vectors: NDArray) -> float:
    """MaxSim of one unit in float64: the same for equal vectors, wherever they stand."""
    similarity = torch.from_numpy(query).double() @ torch.from_numpy(vectors).double().T
    return float(similarity.amax(dim=1).sum().float())
