"""A static-embedding router in closed form: ridge regression over fixed views of a text.

Views of n-grams have a row of R numbers for each bucket, what the n-gram adds to each route, pooled
by the root of their number; a view of tokens has a fixed table of vectors and a linear head. Letter
case, punctuation and word shapes, which an uncased encoder can't see, are what the n-grams add.
Strength and temperature are picked by the leave-one-out predictions that ridge regression has in
closed form, so that every training query is trained on, and nothing depends on a seed.

Sources: Joulin et al., Bag of Tricks for Efficient Text Classification, 2017 (hashed n-grams);
Minishlab's model2vec (token vectors distilled from an encoder); Rifkin and Lippert, Notes on
Regularized Least Squares, 2007 (leave-one-out predictions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError
from arms.reward import BoolArray, FloatArray
from router.policies.static_embedding import LamHeads, StaticEmbeddingPolicy
from router.text_views import ByteTable, NgramSpec, TextFeatures, TokenIds, View, encodable, ids_of

NGRAM_VIEWS = (
    NgramSpec("words", 1, 2, 1 << 17),
    NgramSpec("characters", 2, 6, 1 << 17),
    NgramSpec("shapes", 1, 4, 1 << 17),
)
MOST_QUERIES = 20_000
"""A matrix of queries by queries is held: 3.2 GB at that many."""
_TEMPERATURES = tuple(2.0**power for power in np.arange(0.0, 6.01, 0.25))


@dataclass(frozen=True)
class TokenVectors:
    """A view of tokens with a table that stays as it is."""

    ids: TokenIds
    rows: NDArray[np.float32]
    """(vocabulary, d)."""


@dataclass(frozen=True)
class RidgeFit:
    """The kept strength and what leaving one query out says of it."""

    dual: FloatArray
    """(Q, R) the weights are the queries' vectors, summed by these."""
    strength: float
    accuracy: float
    """Of the leave-one-out predictions."""
    temperature: float
    """Scores are multiplied by it before the softmax."""


def fit_views(
    name: str,
    routes: Sequence[str],
    views: Sequence[NgramSpec | TokenVectors],
    texts: Sequence[str],
    needed: BoolArray,
    strengths: Sequence[float],
    made_from: Mapping[str, Any] | None = None,
) -> StaticEmbeddingPolicy:
    """Fit on ``texts`` (Q) and the routes they need (Q, R).

    Each view's vectors have a mean squared length of 1 / views. The policy's ``made_from`` gains
    the strength, the temperature and the leave-one-out accuracy.

    Raises:
        LabelsError: there are more than ``MOST_QUERIES`` queries.
    """
    if len(texts) > MOST_QUERIES:
        raise LabelsError(
            f"the static router is fitted on at most {MOST_QUERIES} queries, got {len(texts)}; "
            "switch it off (static.enabled: false) or draw a sample"
        )
    blocks = [_Block.of(view, texts, len(views)) for view in views]
    inner = np.ones((len(texts), len(texts)))  # the bias: every query has a 1
    for block in blocks:
        inner += _dense(block.train @ block.train.T)
    fit = fit_ridge(inner, needed, strengths)
    kept = {
        **(made_from or {}),
        "strength": fit.strength,
        "temperature": fit.temperature,
        "leave_one_out_accuracy": fit.accuracy,
    }
    dual = fit.temperature * fit.dual
    return _policy(name, routes, blocks, dual, kept)


def fit_ridge(inner: FloatArray, needed: BoolArray, strengths: Sequence[float]) -> RidgeFit:
    """Solve ``(inner + strength · I) dual = ±1`` for each strength; keep the best, ties to more.

    ``inner`` (Q, Q) inner products, ``needed`` (Q, R). Best is the leave-one-out accuracy: the
    share of queries whose highest score lies on a route they need. The temperature minimises the
    negative log-likelihood of those routes under the softmax of the same scores.
    """
    signs = np.where(needed, 1.0, -1.0)
    values, vectors = np.linalg.eigh(inner)
    rotated = vectors.T @ signs
    best: RidgeFit | None = None
    for strength in sorted(set(strengths), reverse=True):
        shrunk = 1.0 / (np.maximum(values, 0.0) + strength)
        dual = vectors @ (shrunk[:, None] * rotated)
        diagonal = (vectors**2) @ shrunk
        left_out = signs - dual / diagonal[:, None]
        right = needed[np.arange(len(needed)), left_out.argmax(axis=1)]
        accuracy = float(right.mean())
        if best is None or accuracy > best.accuracy:
            best = RidgeFit(dual, strength, accuracy, _temperature(left_out, needed))
    if best is None:
        raise ValueError("ridge regression needs at least one strength")
    return best


def _temperature(scores: FloatArray, needed: BoolArray) -> float:
    def surprise(factor: float) -> float:
        logits = factor * (scores - scores.max(axis=1, keepdims=True))
        log_total = np.log(np.exp(logits).sum(axis=1))
        log_needed = np.log(np.where(needed, np.exp(logits), 0.0).sum(axis=1) + 1e-300)
        return float((log_total - log_needed).mean())

    return min(_TEMPERATURES, key=surprise)


def _dense(matrix: Any) -> FloatArray:
    dense: FloatArray = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    return dense


@dataclass(frozen=True)
class _Block:
    """One view: its columns of the regression, scaled."""

    view: NgramSpec | TokenVectors
    used: NDArray[np.int64]
    """Rows of the view's table that training texts use; columns of a view of n-grams."""
    scale: float
    train: Any
    """(Q, columns) sparse for n-grams, dense for tokens."""

    @classmethod
    def of(cls, view: NgramSpec | TokenVectors, texts: Sequence[str], views: int) -> _Block:
        source = view.ids if isinstance(view, TokenVectors) else view
        ids = ids_of(source, [encodable(text) for text in texts])
        used, places = np.unique(np.concatenate(ids), return_inverse=True)
        plain = _means(view, ids) if isinstance(view, TokenVectors) else _counts(ids, places)
        squared = (plain.multiply(plain) if hasattr(plain, "multiply") else plain**2).sum()
        length = max(float(np.sqrt(squared / len(texts))), 1e-12)
        scale = float(1.0 / (length * np.sqrt(views)))
        return cls(view, used, scale, plain * scale)


def _means(view: TokenVectors, ids: Sequence[NDArray[np.int64]]) -> FloatArray:
    width = view.rows.shape[1]
    means = [view.rows[one].mean(axis=0) if len(one) else np.zeros(width) for one in ids]
    return np.asarray(means, dtype=np.float64)


def _counts(ids: Sequence[NDArray[np.int64]], places: NDArray[np.int64]) -> Any:
    """Counts of a text's n-grams over the root of how many there are, repeats counted."""
    from scipy.sparse import csr_matrix

    lengths = np.array([len(one) for one in ids])
    weights = np.repeat(np.maximum(lengths, 1) ** -0.5, lengths)
    rows = np.repeat(np.arange(len(ids)), lengths)
    return csr_matrix((weights, (rows, places)), shape=(len(ids), int(places.max(initial=-1)) + 1))


def _policy(
    name: str,
    routes: Sequence[str],
    blocks: Sequence[_Block],
    dual: FloatArray,
    made_from: Mapping[str, Any],
) -> StaticEmbeddingPolicy:
    """Put the weights where the policy looks for them: in tables of n-grams, and in heads."""
    views, heads = [], []
    for block in blocks:
        own = block.scale * (block.train.T @ dual)
        if isinstance(block.view, TokenVectors):
            views.append(View(block.view.ids, ByteTable.of(block.view.rows)))
            heads.append(own.T)
        else:
            rows = np.zeros((block.view.buckets, len(routes)), dtype=np.float32)
            rows[block.used] = own
            ones = np.ones(block.view.buckets, dtype=np.float32)
            views.append(View(block.view, ByteTable.of(rows), "l2", ones))
            heads.append(np.eye(len(routes)))
    head = np.concatenate(heads, axis=1)[None].astype(np.float32)
    bias = dual.sum(axis=0)[None].astype(np.float32)
    return StaticEmbeddingPolicy(
        name, routes, TextFeatures(tuple(views)), LamHeads(head, bias, None), made_from
    )
