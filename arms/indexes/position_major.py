"""Token vectors laid out so that MaxSim's maximum is elementwise, and bounds from them.

Units are sorted by length and cut into groups. In a group the first vector of every unit comes
first, then the second of every unit, and so on. The product of one position with all query tokens
is a matrix (units, tokens), and the maximum over a unit's vectors is the elementwise maximum of
such matrices: without segments, in the cache, in the product's own bfloat16.

The bits of numbers that aren't negative sort like integers, so the maximum is that of integers,
from 0 upwards: eight times faster than that of bfloat16. A similarity that is negative at every
position counts as 0, which is why the scores bound MaxSim from above and aren't MaxSim itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from arms.indexes.maxsim import query_blocks
from arms.indexes.token_vectors import TokenVectors

FloatArray = NDArray[np.float32]

_GROUP_UNITS = 256
_WIDTH_STEP = 32
_TOKEN_STEP = 16
"""Sides of products are multiples of these, so that few shapes exist: each shape is compiled."""
_SIMILARITIES = 262_144
"""Of one product: half a megabyte in bfloat16, which stays in the cache."""
_QUERY_TOKENS_AT_ONCE = 512
_COPIED_VECTORS = 4096
_WORD = {torch.bfloat16: torch.int16, torch.float32: torch.int32}


@dataclass(frozen=True, slots=True)
class _Slab:
    """Consecutive positions of a group, as wide as one another."""

    first_row: int
    first_position: int
    positions: int
    width: int


@dataclass(frozen=True, slots=True)
class _Group:
    units: NDArray[np.intp]
    """Longest first."""
    slabs: tuple[_Slab, ...]


class PositionMajor:
    """A copy of float16 token vectors, ordered by position, in the type of the products.

    Where a product is wider than the units that have its position, the last vector of each shorter
    unit stands in, which changes no maximum.
    """

    def __init__(self, store: TokenVectors, dtype: torch.dtype) -> None:
        self._dtype = dtype
        self._n_units = store.n_units
        lengths = np.diff(store.begin)
        self._groups = list(_groups(lengths))
        n_rows = sum(slab.positions * slab.width for one in self._groups for slab in one.slabs)
        self._matrix = torch.empty((n_rows, store.dimension), dtype=dtype)
        self.size_bytes = self._matrix.nbytes
        self._error = RoundingError(dtype, store.dimension)
        for group in self._groups:
            for slab in group.slabs:
                self._copy(store, lengths, group, slab)

    def _copy(
        self, store: TokenVectors, lengths: NDArray[np.integer], group: _Group, slab: _Slab
    ) -> None:
        units = group.units[: slab.width]
        step = max(1, _COPIED_VECTORS // slab.width)
        for first in range(0, slab.positions, step):
            last = min(first + step, slab.positions)
            position = slab.first_position + np.arange(first, last)[:, None]
            rows = store.begin[units] + np.minimum(position, lengths[units] - 1)
            exact = torch.from_numpy(store.taken(rows.ravel())).float()
            rounded = exact.to(self._dtype)
            begin = slab.first_row + first * slab.width
            self._matrix[begin : begin + len(rounded)] = rounded
            self._error.see(exact, rounded)

    def bounds(self, queries: Sequence[FloatArray]) -> FloatArray:
        """(m, n) float32: no unit's MaxSim is higher; −inf where unit or query has no vector."""
        found = np.full((len(queries), self._n_units), -np.inf, dtype=np.float32)
        for place in query_blocks([len(one) for one in queries], _QUERY_TOKENS_AT_ONCE):
            block = [queries[one] for one in place]
            errors = np.array([self._error.of(one) for one in block], dtype=np.float32)
            starts = np.cumsum([0, *[len(one) for one in block[:-1]]])
            tokens = self._tokens(block)
            memory = _Memory(tokens.shape[1], self._dtype)
            for group in self._groups:
                best = self._best(group, tokens, memory)
                scores = np.add.reduceat(best, starts, axis=1) + errors
                found[np.array(place)[:, None], group.units] = scores.T
        return found

    def _tokens(self, queries: Sequence[FloatArray]) -> torch.Tensor:
        """(d, tokens) of all queries, filled up with zeros."""
        given = np.concatenate(queries)
        width = -(-len(given) // _TOKEN_STEP) * _TOKEN_STEP
        tokens = torch.zeros((width, given.shape[1]), dtype=self._dtype)
        tokens[: len(given)] = torch.from_numpy(given)
        return tokens.T.contiguous()

    def _best(self, group: _Group, tokens: torch.Tensor, memory: _Memory) -> FloatArray:
        """(units, tokens) greatest similarities, at least 0."""
        n_tokens = tokens.shape[1]
        best = memory.best[: len(group.units) * n_tokens].zero_()
        for slab in group.slabs:
            size = slab.width * n_tokens
            so_far = best[:size].view(_WORD[self._dtype])
            for first, positions in _pieces(slab.positions, max(1, _SIMILARITIES // size)):
                begin = slab.first_row + first * slab.width
                rows = self._matrix[begin : begin + positions * slab.width]
                product = memory.product[: positions * size]
                torch.mm(rows, tokens, out=product.view(len(rows), n_tokens))
                words = product.view(_WORD[self._dtype]).view(positions, size)
                torch.maximum(so_far, words[0] if positions == 1 else words.amax(0), out=so_far)
        widened = memory.widened[: len(best)].copy_(best)
        return widened.view(-1, n_tokens).numpy()


class _Memory:
    """What one call writes to, group after group: fresh pages would cost more than the products."""

    def __init__(self, n_tokens: int, dtype: torch.dtype) -> None:
        largest = _GROUP_UNITS * n_tokens
        self.product = torch.empty(max(_SIMILARITIES, largest), dtype=dtype)
        self.best = torch.empty(largest, dtype=dtype)
        self.widened = torch.empty(largest)


class RoundingError:
    """How far below MaxSim a product of rounded vectors can stay, by what was rounded how.

    With q̂ and d̂ for what the type makes of q and d, ⟨q, d⟩ − ⟨q̂, d̂⟩ is at most
    ‖q − q̂‖·‖d‖ + ‖q̂‖·‖d − d̂‖ (Cauchy and Schwarz). Sums of products in float32 err by n·2⁻²⁴
    of ‖q̂‖·‖d̂‖, and the result is rounded to the type once more, by half the distance between
    numbers as large as the largest result.

    Args:
        dtype: of the product's factors and result.
        dimension: n.
        longest: greatest ‖d‖.
        farthest: greatest ‖d − d̂‖.
        scaled: whether results are multiplied by a scale once they are rounded.
    """

    def __init__(
        self,
        dtype: torch.dtype,
        dimension: int,
        longest: float = 0.0,
        farthest: float = 0.0,
        *,
        scaled: bool = False,
    ) -> None:
        self._dtype = dtype
        self._summing = dimension * 2.0**-24
        self._longest, self._farthest = longest, farthest
        self._scaled = scaled

    def see(self, exact: torch.Tensor, rounded: torch.Tensor) -> None:
        """Take (n, d) float32 vectors of units into account, and what was made of them."""
        rounding = torch.linalg.vector_norm(exact - rounded.float(), dim=1)
        self._farthest = max(self._farthest, float(rounding.max()))
        self._longest = max(self._longest, float(torch.linalg.vector_norm(exact, dim=1).max()))

    def of(self, query: FloatArray) -> float:
        """Bound on the error of a whole score, over all (tokens, d) of a query."""
        exact = torch.from_numpy(query).double()
        rounded = exact.to(self._dtype).double()
        lengths = torch.linalg.vector_norm(rounded, dim=1)
        rounding = torch.linalg.vector_norm(exact - rounded, dim=1)
        largest = (lengths * (self._longest + self._farthest)).clamp_min(1e-30)
        result = self._half_step(largest)
        per_token = (
            rounding * self._longest + lengths * self._farthest + largest * self._summing + result
        )
        return float(per_token.sum()) * 1.01

    def _half_step(self, largest: torch.Tensor) -> torch.Tensor:
        """Largest error of rounding results up to (n,) ``largest`` to the type."""
        eps = torch.finfo(self._dtype).eps
        if self._scaled:
            return largest * eps / 2
        # Numbers up to 1 lie eps / 2 apart at most, and what is half of that above 1 becomes 1.
        return eps / 4 * torch.exp2(torch.ceil(torch.log2(largest * (1 - eps / 4))))


def _groups(lengths: NDArray[np.integer]) -> Iterator[_Group]:
    """Cut units that have vectors, longest first, into groups; rows are numbered through."""
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    row = 0
    for begin in range(0, len(order), _GROUP_UNITS):
        units = order[begin : begin + _GROUP_UNITS]
        having = len(units) - np.searchsorted(
            lengths[units][::-1], np.arange(lengths[units[0]]), side="right"
        )
        widths = np.minimum(-(-having // _WIDTH_STEP) * _WIDTH_STEP, len(units))
        edges = [0, *(np.flatnonzero(np.diff(widths)) + 1).tolist(), len(widths)]
        slabs = []
        for first, last in pairwise(edges):
            width = int(widths[first])
            slabs.append(_Slab(row, first, last - first, width))
            row += (last - first) * width
        yield _Group(units, tuple(slabs))


def _pieces(positions: int, most: int) -> Iterator[tuple[int, int]]:
    """Cut positions into pieces, (first, how many), of powers of two up to ``most``.

    So the number of different shapes stays small.
    """
    first = 0
    while first < positions:
        size = 1 << (min(positions - first, most).bit_length() - 1)
        yield first, size
        first += size
