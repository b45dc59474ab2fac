import numpy as np
import pytest

from tests.training.synthetic import make_quality, make_texts
from tests.training.tables import make_table
from training.baselines import (
    choose,
    fit_tfidf,
    hard_best,
    same_mix,
    tfidf_features,
)
from training.settings import BaselineSettings


def test_hard_labels_take_the_highest_reward_and_ties_go_to_the_faster_arm():
    table = make_table(
        [[0.5, 0.5, 0.2], [0.0, 0.0, 0.0], [0.1, 0.2, 0.9]],
        latency_ms=[[9.0, 3.0, 5.0], [9.0, 3.0, 1.0], [9.0, 3.0, 6.0]],
    )
    assert hard_best(table, 0.0).tolist() == [1, 2, 2]
    # At lam = 1 only a query's own latency counts.
    assert hard_best(table, 1.0).tolist() == [1, 2, 1]


def test_a_masked_arm_is_never_a_hard_label():
    table = make_table([[0.9, 0.1]], competes=[[False, True]])
    assert hard_best(table, 0.0).tolist() == [1]


def test_random_arms_keep_the_mix_and_its_masks():
    chosen = np.array([0] * 700 + [2] * 300)
    competes = np.ones((1000, 3), dtype=bool)
    competes[:100, 0] = False
    columns, probability = same_mix(chosen, competes, seed=3)
    assert (columns[:100] == 2).all()
    assert (probability[:100] == 1.0).all()
    share = np.bincount(columns[100:], minlength=3) / 900
    np.testing.assert_allclose(share, [0.7, 0.0, 0.3], atol=0.05)
    np.testing.assert_allclose(probability[100:], np.where(columns[100:] == 0, 0.7, 0.3))
    again, _ = same_mix(chosen, competes, seed=3)
    np.testing.assert_array_equal(again, columns)
    assert (same_mix(chosen, competes, seed=4)[0] != columns).any()


def test_random_arms_where_the_mix_is_not_there():
    columns, probability = same_mix(np.array([0, 0]), np.array([[False, True], [True, True]]), 0)
    assert columns.tolist() == [1, 0]
    assert probability.tolist() == [1.0, 1.0]
    assert same_mix(np.zeros(0, dtype=int), np.ones((0, 2), dtype=bool), 0)[0].shape == (0,)


def test_choosing_skips_arms_that_do_not_compete():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.7, 0.0, 0.0]])
    competes = np.array([[False, True, True], [False, True, True]])
    assert choose(probabilities, competes).tolist() == [1, 1]


def test_tfidf_learns_telling_words():
    texts, best = make_texts(400)
    table = make_table(make_quality(best), texts=texts)
    train, held_out = table.rows(np.arange(300)), table.rows(np.arange(300, 400))
    settings = BaselineSettings()
    features = tfidf_features(train.texts.tolist(), settings)
    head = fit_tfidf(features, train, held_out, 0.0, settings)
    rows = head.probabilities(features.vectorizer.transform(held_out.texts.tolist()), 3)
    assert (rows.argmax(axis=1) == best[300:]).mean() > 0.95


def test_tfidf_with_one_best_arm_or_no_words():
    table = make_table([[0.1, 0.9], [0.2, 0.8]], texts=["one two", "three four"])
    settings = BaselineSettings()
    features = tfidf_features(table.texts.tolist(), settings)
    head = fit_tfidf(features, table, table.rows(np.arange(0)), 0.0, settings)
    rows = head.probabilities(features.matrix, 2)
    np.testing.assert_array_equal(rows, [[0.0, 1.0], [0.0, 1.0]])
    assert tfidf_features(["?", "!"], settings) is None


@pytest.mark.parametrize("lam", [0.0, 0.5, 1.0])
def test_hard_labels_have_the_highest_reward(lam):
    random = np.random.default_rng(0)
    table = make_table(random.random((50, 4)), latency_ms=random.random((50, 4)) + 0.1)
    rewards = table.rewards(lam)
    taken = rewards[np.arange(50), hard_best(table, lam)]
    np.testing.assert_array_equal(taken, rewards.max(axis=1))
