import numpy as np
import pytest
from scipy.sparse import csr_matrix

from training.routes import ridge
from training.routes.ridge import (
    conjugate_gradients,
    exact_ridge,
    fit_ridge,
    inner_products,
)


def test_leave_one_out_equals_refitting_without_each_query():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(12, 5))
    inner, needed = vectors @ vectors.T, random.random((12, 3)) < 0.5
    needed[:, 0] |= ~needed.any(axis=1)
    signs = np.where(needed, 1.0, -1.0)
    right = []
    for row in range(12):
        rest = np.delete(np.arange(12), row)
        kept = inner[np.ix_(rest, rest)] + 0.5 * np.eye(11)
        scores = inner[row, rest] @ np.linalg.solve(kept, signs[rest])
        right.append(needed[row, scores.argmax()])
    fit = exact_ridge(inner, needed, [0.5])
    assert fit.accuracy == pytest.approx(np.mean(right))
    assert np.allclose((inner + 0.5 * np.eye(12)) @ fit.dual, signs)


def test_equal_strengths_in_accuracy_keep_the_larger():
    inner = 5.0 * np.eye(4) + np.kron(np.eye(2), np.ones((2, 2)))
    needed = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    fit = exact_ridge(inner, needed, [0.1, 2.0, 1.0])
    assert fit.accuracy == 1.0
    assert fit.strength == 2.0


def problem(queries=60):
    random = np.random.default_rng(2)
    dense = random.normal(size=(queries, 4))
    sparse = csr_matrix(random.random((queries, 30)) * (random.random((queries, 30)) < 0.2))
    needed = np.eye(3, dtype=bool)[(dense[:, :3] + 0.3).argmax(axis=1)]
    inner = 1.0 + dense @ dense.T + (sparse @ sparse.T).toarray()
    return [dense, sparse], needed, inner


def test_inner_products_are_never_made_and_still_multiplied_by():
    parts, _, inner = problem()
    vectors = np.random.default_rng(0).normal(size=(60, 2))
    np.testing.assert_allclose(inner_products(parts, vectors), inner @ vectors)
    np.testing.assert_allclose(inner_products(parts, vectors[:, 0]), inner @ vectors[:, 0])


def test_gradients_solve_the_same_equations():
    parts, needed, inner = problem()
    signs = np.where(needed, 1.0, -1.0)
    wanted = np.linalg.solve(inner + 0.5 * np.eye(60), signs)
    found = conjugate_gradients(parts, signs, 0.5, np.zeros(signs.shape))
    np.testing.assert_allclose(found, wanted, atol=0.02)
    again = conjugate_gradients(parts, signs, 0.5, found)
    np.testing.assert_array_equal(again, found)


def test_many_queries_are_judged_on_a_sample_and_all_fitted(monkeypatch):
    parts, needed, inner = problem()
    monkeypatch.setattr(ridge, "EXACT_UP_TO", 20)
    calls = []
    fit = fit_ridge(parts, needed, [0.1, 3.0], lambda: calls.append(1))
    assert len(calls) == ridge.solves(60) == 2
    sample = np.linspace(0, 59, 20).round().astype(int)
    alone = exact_ridge(inner[np.ix_(sample, sample)], needed[sample], [0.1, 3.0])
    told = (fit.strength, fit.temperature, fit.accuracy)
    assert told == (alone.strength, alone.temperature, pytest.approx(alone.accuracy))
    np.testing.assert_array_equal(fit.judged, sample)
    assert fit.left_out.shape == (20, needed.shape[1])
    wanted = np.linalg.solve(inner + fit.strength * np.eye(60), np.where(needed, 1.0, -1.0))
    np.testing.assert_allclose(fit.dual, wanted, atol=0.02 * np.abs(wanted).max())


def test_no_strength_is_an_error():
    with pytest.raises(ValueError, match="at least one strength"):
        fit_ridge([np.eye(2)], np.eye(2, dtype=bool), [])
