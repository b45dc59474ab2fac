"""Normalisation and linear fusion, by hand."""

import numpy as np
import pytest

from arms.fused_scores import NORMALISATIONS, linear_fusion, missing_values, normalised_scores
from arms.records import Ranking

NAN = np.nan


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        ("top_score", [1.0, 0.5, 0.25]),
        ("min_max", [1.0, 1 / 3, 0.0]),
        ("z", [1.3363062, -0.2672612, -1.0690450]),
    ],
)
def test_each_method_by_hand(method, wanted):
    scores = np.array([[8.0, 4.0, 2.0, NAN]])
    found = normalised_scores(scores, method)
    np.testing.assert_allclose(found, [[*wanted, NAN]], atol=1e-6)
    np.testing.assert_allclose(missing_values(found), [wanted[-1]], atol=1e-6)


@pytest.mark.parametrize("method", NORMALISATIONS)
def test_constant_single_and_empty_lists(method):
    scores = np.array([[3.0, 3.0, 3.0], [-2.0, NAN, NAN], [0.0, 0.0, NAN], [NAN, NAN, NAN]])
    found = normalised_scores(scores, method)
    np.testing.assert_array_equal(found[:3], np.where(np.isnan(scores[:3]), NAN, 1.0))
    assert np.isnan(found[3]).all()
    np.testing.assert_array_equal(missing_values(found), [0, 0, 0, 0])
    assert normalised_scores(np.zeros((2, 0)), method).shape == (2, 0)


def test_negative_scores_keep_their_order():
    found = normalised_scores(np.array([[-1.0, -4.0], [1.0, -4.0]]), "top_score")
    np.testing.assert_allclose(found, [[-0.25, -1.0], [0.25, -1.0]])


def test_lists_dont_touch_one_another():
    rows = np.array([[9.0, 3.0, 1.0], [0.9, 0.5, NAN], [5.0, NAN, NAN]])
    for method in NORMALISATIONS:
        alone = [normalised_scores(row[None, :], method)[0] for row in rows]
        np.testing.assert_array_equal(normalised_scores(rows, method), alone)


def test_refused():
    with pytest.raises(ValueError, match="top_score, min_max, z"):
        normalised_scores(np.ones((1, 2)), "softmax")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape"):
        normalised_scores(np.ones(2), "z")


def test_linear_fusion_by_hand():
    one = Ranking(("a", "b", "c"), (10.0, 5.0, 4.0))
    other = Ranking(("d", "b"), (0.9, 0.3))
    found = linear_fusion([one, other], (1.0, 2.0), "top_score", 10)
    # a: 1 + 2/3, b: .5 + 2/3, c: .4 + 2/3, d: .4 + 2; a list counts its lowest for those it lacks
    assert found.doc_ids == ("d", "a", "b", "c")
    np.testing.assert_allclose(found.scores, (2.4, 1 + 2 / 3, 0.5 + 2 / 3, 0.4 + 2 / 3))
    assert linear_fusion([one, other], (1.0, 2.0), "top_score", 2).doc_ids == ("d", "a")


def test_linear_fusion_of_empty_and_single_lists():
    empty, single = Ranking((), ()), Ranking(("z",), (0.1,))
    long = Ranking(("a", "b"), (2.0, 1.0))
    assert linear_fusion([empty, empty], (1, 1), "z", 5) == empty
    assert linear_fusion([empty, long], (5, 1), "min_max", 5) == Ranking(("a", "b"), (1.0, 0.0))
    # the only document that a list found counts 1 there, the others 0; ties go by document id
    found = linear_fusion([single, long], (1, 1), "min_max", 5)
    assert found == Ranking(("a", "z", "b"), (1.0, 1.0, 0.0))
