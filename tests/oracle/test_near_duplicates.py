import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from oracle import near_duplicates
from oracle.near_duplicates import cosines, near_duplicate_pairs, text_vectors


def all_pairs(vectors, threshold: float) -> list[list[int]]:
    dense = vectors.toarray()
    near = dense @ dense.T >= threshold
    return [[a, b] for a in range(len(dense)) for b in range(a + 1, len(dense)) if near[a, b]]


def test_a_changed_year_is_near_and_another_question_is_not():
    texts = [
        "what was the total revenue of the company in 2018?",
        "what was the total revenue of the company in 2019?",
        "who wrote the annual report?",
        "an answer about something else entirely",
    ]
    assert near_duplicate_pairs(text_vectors(texts)).tolist() == [[0, 1]]


def test_the_cosine_is_that_of_the_rows():
    vectors = csr_matrix(np.array([[0.6, 0.8, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]]))
    found = cosines(vectors, np.array([0, 0]), np.array([1, 2]))
    np.testing.assert_allclose(found, [0.96, 0.0])
    assert near_duplicate_pairs(vectors, 0.95).tolist() == [[0, 1]]
    assert near_duplicate_pairs(vectors, 0.97).tolist() == []


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.3, 0.5, 0.8, 0.95, 1.0]))
def test_no_pair_is_lost_to_the_prefixes(seed, threshold):
    random = np.random.default_rng(seed)
    dense = random.random((30, 12)) * (random.random((30, 12)) < 0.4)
    dense[random.integers(30, size=8)] = dense[random.integers(30, size=8)]
    norm = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, norm, out=np.zeros_like(dense), where=norm > 0)
    vectors = csr_matrix(dense)
    near = {tuple(pair) for pair in near_duplicate_pairs(vectors, threshold - 1e-9).tolist()}
    assert near == {tuple(pair) for pair in all_pairs(vectors, threshold - 1e-9)}


def test_blocks_change_nothing(monkeypatch):
    texts = [f"question number {n // 3} about the same old thing" for n in range(40)]
    whole = near_duplicate_pairs(text_vectors(texts))
    monkeypatch.setattr(near_duplicates, "_BLOCK", 7)
    np.testing.assert_array_equal(near_duplicate_pairs(text_vectors(texts)), whole)
    assert len(whole) >= 39


@pytest.mark.parametrize("texts", [[], [""], ["", "  "], ["a"], ["", "same text", "same text"]])
def test_texts_with_little_or_nothing_in_them(texts):
    vectors = text_vectors(texts)
    assert vectors.shape[0] == len(texts)
    pairs = near_duplicate_pairs(vectors).tolist()
    assert pairs == ([[1, 2]] if len(texts) == 3 else [])
