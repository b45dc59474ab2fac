"""Pairs of texts that say nearly the same: cosine of character n-grams, weighted by TF-IDF.

The measure is that of an outside audit of the text suite, whose count it reproduces
(tests/benchmarks): n-grams of 3 to 5 characters inside words, sublinear term frequency, inverse
document frequency over the texts given, cosine of at least .8.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

THRESHOLD = 0.8
"""Cosine from which two texts are near-duplicates."""
_NGRAMS = (3, 5)
_BLOCK = 512
"""Texts that are compared with all others at once; bounds memory."""

Pairs = NDArray[np.intp]


def text_vectors(texts: Sequence[str]) -> Any:
    """(n, terms) TF-IDF of character n-grams, a sparse matrix of rows of length 1.

    A text without any n-gram (an empty one) has a row of zeros.
    """
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(text.strip() for text in texts):
        return csr_matrix((len(texts), 1))
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=_NGRAMS, sublinear_tf=True)
    return vectorizer.fit_transform(texts)


def near_duplicate_pairs(vectors: Any, threshold: float = THRESHOLD) -> Pairs:
    """(pairs, 2) every pair of rows with a cosine of at least ``threshold``; first < second.

    Exact, without comparing all pairs: two rows that are that near share a term in the prefix of
    both, where a row's prefix is its rarest terms, as many as leave a rest shorter than the
    threshold (Bayardo, Ma and Srikant 2007, "Scaling up all pairs similarity search").

    Args:
        vectors: (n, terms) sparse, rows of length 1 or 0.
        threshold: in (0, 1].

    Returns:
        Sorted by first, then second.
    """
    found = list(_pairs_of_blocks(vectors.tocsr(), threshold))
    return np.concatenate([np.zeros((0, 2), dtype=np.intp), *found])


def _pairs_of_blocks(vectors: Any, threshold: float) -> Iterator[Pairs]:
    prefixes = _prefixes(vectors, threshold)
    by_term = prefixes.T.tocsr()
    for start in range(0, vectors.shape[0], _BLOCK):
        shared = (prefixes[start : start + _BLOCK] @ by_term).tocoo()
        first, second = shared.row.astype(np.intp) + start, shared.col.astype(np.intp)
        later = first < second
        first, second = first[later], second[later]
        for part in _parts(len(first)):
            near = cosines(vectors, first[part], second[part]) >= threshold
            yield _sorted(np.column_stack([first[part][near], second[part][near]]))


def cosines(vectors: Any, first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.float64]:
    """(pairs,) cosine of the rows ``first`` and ``second``."""
    product = vectors[first].multiply(vectors[second])
    return np.asarray(product.sum(axis=1), dtype=np.float64).ravel()


def _parts(count: int, size: int = 100_000) -> Iterator[slice]:
    for start in range(0, count, size):
        yield slice(start, start + size)


def _sorted(pairs: Pairs) -> Pairs:
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _prefixes(vectors: Any, threshold: float) -> Any:
    """(n, terms) 1 at each row's rarest terms, as many as leave a rest shorter than threshold."""
    from scipy.sparse import csr_matrix

    frequency = np.bincount(vectors.indices, minlength=vectors.shape[1])
    rarity = np.empty(len(frequency), dtype=np.intp)
    rarity[np.lexsort((np.arange(len(frequency)), frequency))] = np.arange(len(frequency))
    indices, indptr = [np.zeros(0, dtype=vectors.indices.dtype)], [0]
    for start, end in zip(vectors.indptr[:-1], vectors.indptr[1:], strict=True):
        terms, weights = vectors.indices[start:end], vectors.data[start:end]
        order = np.argsort(rarity[terms])
        # What is left from each place on, slightly too long so that rounding loses no pair.
        rest = np.cumsum((weights[order] ** 2)[::-1])[::-1] + 1e-9
        indices.append(terms[order[rest >= threshold**2]])
        indptr.append(indptr[-1] + len(indices[-1]))
    joined = np.concatenate(indices)
    ones = np.ones(len(joined), dtype=np.int32)
    return csr_matrix((ones, joined, indptr), shape=vectors.shape)
