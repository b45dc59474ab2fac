"""A static-embedding router in closed form: ridge regression over fixed views of a text.

Views of n-grams have a row of R numbers for each bucket, what the n-gram adds to each route, pooled
by the root of their number; a view of tokens has a fixed table of vectors and a linear head. Letter
case, punctuation and word shapes, which an uncased encoder can't see, are what the n-grams add.
Strength and temperature are picked by predictions of left-out queries, see
:mod:`training.routes.ridge`; every query is trained on in the end, and nothing depends on a seed.

Sources: Joulin et al., Bag of Tricks for Efficient Text Classification, 2017 (hashed n-grams);
Minishlab's model2vec (token vectors distilled from an encoder).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.reward import BoolArray, FloatArray
from router.policies.static_embedding import LamHeads, StaticEmbeddingPolicy
from router.text_views import ByteTable, NgramSpec, TextFeatures, TokenIds, View, encodable, ids_of
from training.routes.ridge import fit_ridge

NGRAM_VIEWS = (
    NgramSpec("words", 1, 2, 1 << 17),
    NgramSpec("characters", 2, 6, 1 << 17),
    NgramSpec("shapes", 1, 4, 1 << 17),
)
_AT_ONCE = 1024
"""Texts looked at at a time, so that only sums of their n-grams are kept of each."""


@dataclass(frozen=True)
class TokenVectors:
    """A view of tokens with a table that stays as it is."""

    ids: TokenIds
    rows: NDArray[np.float32]
    """(vocabulary, d)."""


def fit_views(
    name: str,
    routes: Sequence[str],
    views: Sequence[NgramSpec | TokenVectors],
    texts: Sequence[str],
    needed: BoolArray,
    strengths: Sequence[float],
    provenance: Mapping[str, Any] | None = None,
    on_solve: Callable[[], None] = lambda: None,
) -> StaticEmbeddingPolicy:
    """Fit on ``texts`` (Q) and the routes they need (Q, R).

    Each view's vectors have a mean squared length of 1 / views. The policy's ``provenance`` gains
    the strength, the temperature and the accuracy on left-out queries. Takes some 10 KB for each
    query of a hundred characters, and 1 GB more up to ``training.routes.ridge.EXACT_UP_TO``.
    ``on_solve`` is called :func:`training.routes.ridge.solves` times.
    """
    blocks = [_Block.of(view, texts, len(views)) for view in views]
    fit = fit_ridge([block.train for block in blocks], needed, strengths, on_solve)
    kept = {
        **(provenance or {}),
        "strength": fit.strength,
        "temperature": fit.temperature,
        "leave_one_out_accuracy": fit.accuracy,
        "left_out": len(fit.judged),
    }
    dual = fit.temperature * fit.dual
    return _policy(name, routes, blocks, dual, kept)


@dataclass(frozen=True)
class _Block:
    """One view: its columns of the regression, scaled."""

    view: NgramSpec | TokenVectors
    scale: float
    train: Any
    """(Q, columns) sparse with a column for each bucket of n-grams, dense for tokens."""

    @classmethod
    def of(cls, view: NgramSpec | TokenVectors, texts: Sequence[str], views: int) -> _Block:
        plain = _means(view, texts) if isinstance(view, TokenVectors) else ngram_counts(view, texts)
        squared = (plain.multiply(plain) if hasattr(plain, "multiply") else plain**2).sum()
        length = max(float(np.sqrt(squared / len(texts))), 1e-12)
        scale = float(1.0 / (length * np.sqrt(views)))
        plain *= scale
        return cls(view, scale, plain)


def _ids(source: TokenIds | NgramSpec, texts: Sequence[str]) -> Iterator[list[NDArray[np.int64]]]:
    for begin in range(0, len(texts), _AT_ONCE):
        yield ids_of(source, [encodable(text) for text in texts[begin : begin + _AT_ONCE]])


def _means(view: TokenVectors, texts: Sequence[str]) -> FloatArray:
    """(Q, d) mean vector of each text's tokens."""
    means, row = np.zeros((len(texts), view.rows.shape[1])), 0
    for ids in _ids(view.ids, texts):
        for one in ids:
            if len(one):
                means[row] = view.rows[one].mean(axis=0)
            row += 1
    return means


def ngram_counts(view: NgramSpec, texts: Sequence[str]) -> Any:
    """(Q, buckets) counts of a text's n-grams over the root of how many, repeats counted."""
    from scipy.sparse import csr_matrix, vstack

    parts = []
    for ids in _ids(view, texts):
        lengths = np.array([len(one) for one in ids])
        weights = np.repeat(np.maximum(lengths, 1) ** -0.5, lengths)
        ends = np.concatenate([[0], lengths.cumsum()])
        shape = (len(ids), view.buckets)
        part = csr_matrix((weights, np.concatenate(ids).astype(np.int32), ends), shape=shape)
        part.sum_duplicates()
        parts.append(part)
    return vstack(parts, format="csr")


def _policy(
    name: str,
    routes: Sequence[str],
    blocks: Sequence[_Block],
    dual: FloatArray,
    provenance: Mapping[str, Any],
) -> StaticEmbeddingPolicy:
    """Put the weights where the policy looks for them: in tables of n-grams, and in heads."""
    views, heads = [], []
    for block in blocks:
        own = block.scale * (block.train.T @ dual)
        if isinstance(block.view, TokenVectors):
            views.append(View(block.view.ids, ByteTable.of(block.view.rows)))
            heads.append(own.T)
        else:
            ones = np.ones(block.view.buckets, dtype=np.float32)
            views.append(View(block.view, ByteTable.of(own.astype(np.float32)), "l2", ones))
            heads.append(np.eye(len(routes)))
    head = np.concatenate(heads, axis=1)[None].astype(np.float32)
    bias = dual.sum(axis=0)[None].astype(np.float32)
    return StaticEmbeddingPolicy(
        name, routes, TextFeatures(tuple(views)), LamHeads(head, bias, None), provenance
    )
