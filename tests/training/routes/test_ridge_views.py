import numpy as np
import pytest

from arms.errors import LabelsError
from router.text_views import NgramSpec
from training.routes import ridge_views
from training.routes.ridge_views import fit_ridge, fit_views


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
    fit = fit_ridge(inner, needed, [0.5])
    assert fit.accuracy == pytest.approx(np.mean(right))
    assert np.allclose((inner + 0.5 * np.eye(12)) @ fit.dual, signs)


def test_equal_strengths_in_accuracy_keep_the_larger():
    inner = 5.0 * np.eye(4) + np.kron(np.eye(2), np.ones((2, 2)))
    needed = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=bool)
    fit = fit_ridge(inner, needed, [0.1, 2.0, 1.0])
    assert fit.accuracy == 1.0
    assert fit.strength == 2.0


def test_letter_case_alone_tells_routes_apart():
    words = "alpha beta gamma delta epsilon zeta".split()  # noqa: SIM905
    texts, needed = [], []
    for first in words:
        for second in words:
            texts += [f"{first} {second}", f"{first.capitalize()} {second.capitalize()}"]
            needed += [[True, False], [False, True]]
    views = (NgramSpec("words", 1, 2, 512), NgramSpec("characters", 2, 3, 512))
    policy = fit_views("s", ("low", "high"), views, texts, np.array(needed), [0.1])
    rows = policy.probabilities(["alpha kappa", "Alpha Kappa"], 0.0)
    assert rows.argmax(axis=1).tolist() == [0, 1]
    assert rows.max() < 1.0
    assert policy.made_from["leave_one_out_accuracy"] > 0.95


def test_too_many_queries_are_refused(monkeypatch):
    monkeypatch.setattr(ridge_views, "MOST_QUERIES", 1)
    with pytest.raises(LabelsError, match="at most 1 queries, got 2"):
        fit_views("s", ("a", "b"), ridge_views.NGRAM_VIEWS, ["x", "y"], np.eye(2, dtype=bool), [1])
