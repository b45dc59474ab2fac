"""Ceilings by hand: the oracle where an arm answers, the ideal order where a policy merges."""

import numpy as np
import pyarrow as pa
import pytest

from analysis.ceiling import ceiling_of
from analysis.results import compute_results
from analysis.settings import ReportSettings
from tests.analysis.synthetic import World, decide, with_answers, with_ceilings

SETTINGS = ReportSettings(n_resamples=100, router="merging")
ARMS = ("bm25", "dense", "late")


@pytest.fixture
def labels(tmp_path):
    """One train and three test queries of two datasets; A = {bm25, dense}."""
    world = World(
        np.array([[0.5, 0.4, 0.3], [0.2, 0.8, 0.9], [0.6, 0.5, 0.4], [0.4, 0.3, 1.0]]),
        np.array([[10.0, 30.0, 200.0]] * 4),
        ["a", "a", "a", "b"],
        ["train", "test", "test", "test"],
        ARMS,
        ("bm25", "dense"),
    )
    return world.write(tmp_path)


def scored(labels, ceilings=True, lam=0.5):
    plans = ["bm25&dense", "bm25&dense", "dense", "bm25&dense"]
    none = None
    merging = decide(labels, "merging", lam, np.ones(4, int), 4.0)
    merging = with_answers(merging, plans, nDCG=[0.5, 0.85, none, 0.5])
    if ceilings:
        merging = with_ceilings(merging, nDCG=[0.5, 1.0, none, 0.6])
    router = decide(labels, "router", lam, np.array([0, 1, 1, 0]), 1.0)
    static = decide(labels, "best_static", lam, np.zeros(4, int))
    table = pa.concat_tables([merging, router, static], promote_options="default")
    return compute_results(labels, table, SETTINGS)


def test_a_policy_that_picks_arms_is_held_against_the_oracle(labels):
    results = scored(labels)
    scores = results.test.scores
    assert ceiling_of(scores, scores.get("router", 0.5)) is scores.get("oracle(A)", 0.5)
    own = [one for one in results.test.headrooms if one.policy == "router" and one.own]
    assert {one.ceiling for one in own} == {"oracle(A)"}


def test_a_policy_that_merges_is_held_against_the_ideal_order(labels):
    scores = scored(labels).test.scores
    ceiling = ceiling_of(scores, scores.get("merging", 0.5))
    assert ceiling.policy == "ideal order of merging"
    # Merged: in the plan's own 44 of 40 ms. Where dense answers: the oracle, bm25 in 10 of 40.
    np.testing.assert_allclose(ceiling.latency_ms, [44.0, 10.0, 44.0])
    np.testing.assert_allclose(ceiling.values("nDCG@5"), [1.0, 0.6, 0.6])
    rewards = [0.5 + 0.5 * (1 - 1.1), 0.3 + 0.5 * 0.75, 0.3 + 0.5 * (1 - 1.1)]
    np.testing.assert_allclose(ceiling.reward, rewards)


def test_headroom_by_hand_over_queries_and_over_datasets(labels):
    found = {
        one.ceiling: one
        for one in scored(labels, lam=0.0).test.headrooms
        if (one.policy, one.metric) == ("merging", "nDCG@5")
    }
    own = found["ideal order of merging"]
    assert own.own and not found["oracle(A)"].own
    # Policy .85, .5, .5; best static .2, .6, .4; ceiling 1, .6, .6.
    assert own.closed.value == pytest.approx((1.85 - 1.2) / (2.2 - 1.2))
    assert own.closed_macro == pytest.approx((1.175 - 0.8) / (1.4 - 0.8))
    # The oracle over arms is .8, .6, .4.
    assert found["oracle(A)"].closed.value == pytest.approx(0.65 / 0.6)


def test_decisions_that_tell_no_ideal_order_have_no_ceiling_of_their_own(labels):
    results = scored(labels, ceilings=False)
    scores = results.test.scores
    assert ceiling_of(scores, scores.get("merging", 0.5)) is None
    assert not any(one.own for one in results.test.headrooms if one.policy == "merging")
    assert "merging" not in {one.policy for one in results.test.uncertainties}
