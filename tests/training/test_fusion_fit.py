"""Fitting fusions: the objective by hand, a planted optimum, the prior without one's own group."""

import math

import numpy as np
import pytest

from arms.records import Ranking
from router.list_fusion import ListFusion
from router.probe_features import key_of
from training.fusion_fit import (
    Examples,
    Objective,
    count_relevant,
    fit_fusion,
    fit_weights,
    found_by,
    prior_column,
)

THIRD = 1 / math.log2(3)


def two_queries():
    """Of the first query y and w are relevant, of the second p."""
    rankings = {
        "a": [Ranking(("x", "y"), (4.0, 2.0)), Ranking(("p",), (1.0,))],
        "b": [Ranking(("w", "y"), (9.0, 3.0)), Ranking((), ())],
    }
    grades = {"a": [(0, 1), (1,)], "b": [(2, 1), ()]}
    ideal = np.array([2.0 + THIRD, 1.0])
    return rankings, grades, found_by(rankings, grades, ideal)


def test_what_was_found_by_hand():
    _, _, found = two_queries()
    assert found.arms == ("a", "b")
    assert found.keys.tolist() == [
        [key_of("w"), key_of("x"), key_of("y")],
        [key_of("p"), -1, -1],
    ]
    assert found.ranks.tolist() == [[[-1, 0, 1], [0, -1, -1]], [[0, -1, 1], [-1, -1, -1]]]
    np.testing.assert_allclose(found.gains[0] * (2.0 + THIRD), [2.0, 0.0, 1.0])
    values = found.values(("a", "b"), "top_score")
    np.testing.assert_allclose(values[0], [[0.5, 1.0], [1.0, 1 / 3], [0.5, 1 / 3]])
    assert found.present(("b",)).tolist() == [[True, False, True], [False, False, False]]
    swapped = found.values(("b",), "reciprocal_ranks")[0, :, 0]
    np.testing.assert_allclose(swapped, [1 / 61, 0.0, 1 / 62])


def test_the_objective_is_the_ndcg_of_what_the_policy_would_answer():
    rankings, grades, found = two_queries()
    graded = {"w": 2, "x": 0, "y": 1, "p": 1}
    for method in ("reciprocal_ranks", "top_score", "min_max", "z"):
        objective = Objective.of(
            found.values(("a", "b"), method), found.present(("a", "b")), found.gains, 2
        )
        for weights in ([1.0, 1.0], [1.0, 0.0], [0.2, 0.8], [0.0, 0.0]):
            fusion = ListFusion(("a", "b"), method, np.array(weights))
            expected = []
            for row, ideal in enumerate((2.0 + THIRD, 1.0)):
                fused = fusion.fuse([rankings[arm][row] for arm in ("a", "b")])
                gains = [graded[name] for name in fused.doc_ids[:2]]
                dcg = sum(gain / math.log2(2 + place) for place, gain in enumerate(gains))
                expected.append(dcg / ideal)
            got = objective.of_queries(np.array(weights))
            np.testing.assert_allclose(got, expected, err_msg=f"{method} {weights}")
            assert objective.mean(np.array(weights)) == pytest.approx(np.mean(expected))
    assert grades["a"][0] == (0, 1)


def planted(weights, n=400, seed=0, documents=12):
    """Documents whose relevance follows from a weighted sum of three scores in [0, 1]."""
    rng = np.random.default_rng(seed)
    arms = tuple(f"arm{number}" for number in range(len(weights)))
    rankings, grades = {arm: [] for arm in arms}, {arm: [] for arm in arms}
    for query in range(n):
        scores = rng.random((len(arms), documents))
        scores[:, 0], scores[:, 1] = 1.0, 0.0  # so that every normalisation leaves them as they are
        scores[:, :2] *= rng.random()
        scores /= scores.max(axis=1, keepdims=True)
        best = np.argsort(-(np.asarray(weights) @ scores))[:2]
        for row, arm in enumerate(arms):
            order = np.argsort(-scores[row])
            rankings[arm].append(
                Ranking(tuple(f"q{query}d{one:02}" for one in order), tuple(scores[row][order]))
            )
            grades[arm].append(tuple(int(one in best) for one in order))
    return arms, found_by(rankings, grades, np.full(n, 1.0 + THIRD))


def test_weights_recover_a_planted_optimum():
    arms, found = planted((0.6, 0.3, 0.1))
    examples = Examples(found, np.array(["d"] * len(found), dtype=object))
    objective = examples.objective(arms, "top_score", 2)
    weights = fit_weights(objective)
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights, (0.6, 0.3, 0.1), atol=0.08)
    assert objective.mean(weights) > 0.97 > objective.mean(np.full(3, 1 / 3)) + 0.02
    np.testing.assert_array_equal(weights, fit_weights(objective))


def test_an_arm_that_only_misleads_gets_next_to_nothing():
    arms, found = planted((0.7, 0.3, 0.0), seed=1)
    examples = Examples(found, np.array(["d"] * len(found), dtype=object))
    assert fit_weights(examples.objective(arms, "min_max", 2))[2] < 0.05


def test_held_out_queries_choose_between_one_set_of_weights_and_one_for_each_dataset():
    arms, first = planted((0.9, 0.1), n=200, seed=2)
    _, second = planted((0.1, 0.9), n=200, seed=3)
    ranks = np.concatenate([first.ranks, second.ranks], axis=1)
    both = type(first)(
        arms,
        np.concatenate([first.scores, second.scores], axis=1),
        ranks,
        np.concatenate([first.keys, second.keys]),
        np.concatenate([first.gains, second.gains]),
    )
    names = np.array(["one"] * 200 + ["two"] * 200, dtype=object)
    train, held = np.arange(0, 400, 2), np.arange(1, 400, 2)
    sides = [Examples(both.rows(rows), names[rows]) for rows in (train, held)]
    apart = fit_fusion(arms, *sides, 2, ("top_score",))
    assert set(apart.of_datasets) == {"one", "two"}
    assert apart.of_datasets["one"][0] > 0.8 > 0.2 > apart.of_datasets["two"][0]
    assert fit_fusion(arms, *sides, 2, ("top_score",), per_dataset=False).of_datasets == {}
    few = fit_fusion(arms, *sides, 2, ("top_score",), per_dataset=True, least_queries=101)
    assert few.of_datasets == {}
    both_methods = fit_fusion(arms, *sides, 2, ("z", "top_score"), per_dataset=False)
    reached = {
        method: sides[1]
        .objective(arms, method, 2)
        .mean(fit_weights(sides[0].objective(arms, method, 2)))
        for method in ("z", "top_score")
    }
    assert both_methods.method == max(reached, key=reached.get)


def test_the_prior_counts_queries_and_leaves_out_ones_own_group():
    rankings = {"a": [Ranking((name,), (1.0,)) for name in ("x", "x", "x", "y", "z")]}
    grades = {"a": [(1,), (1,), (1,), (1,), (0,)]}
    found = found_by(rankings, grades, np.ones(5))
    prior = count_relevant(found)
    counted = dict(zip(prior.documents.tolist(), prior.counts.tolist(), strict=True))
    assert counted == {key_of("x"): 3, key_of("y"): 1}
    whole = prior_column(prior, found)[:, 0]
    assert whole.tolist() == [0.75, 0.75, 0.75, 0.5, 0.0]
    # The first two ask the same: only the third tells them of x, and they both tell the third.
    own = prior_column(prior, found, np.array([0, 0, 1, 2, 3]))[:, 0]
    np.testing.assert_allclose(own, [1 / 2, 1 / 2, 2 / 3, 0.0, 0.0])
