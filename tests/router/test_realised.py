"""What plans come to, by hand: two queries, three arms a, b, c; the second dataset lacks b."""

import numpy as np
import pytest

from router.policy import Plan
from router.realised import (
    answered_quality,
    answering_columns,
    arms_run,
    plan_latency_ms,
    plan_reward,
    reused_at_most,
    sum_over_run,
)

ARMS = ("a", "b", "c")
LATENCY_MS = np.array([[1.0, 3.0, 6.0], [2.0, np.nan, 8.0]])
HAS = np.isfinite(LATENCY_MS)


def test_the_arms_of_a_plan_and_the_one_that_answers():
    plans = [Plan(("b", "c"), "cascade"), Plan(("c", "a"), "fuse"), Plan(("a", "b"), "merge")]
    assert arms_run(plans, ARMS).tolist() == [
        [False, True, True],
        [True, False, True],
        [True, True, False],
    ]
    assert answering_columns(plans, ARMS).tolist() == [2, 2, 1]  # fused: the preferred, first
    with pytest.raises(KeyError):
        arms_run([Plan(("d",))], ARMS)


def test_latency_is_all_arms_and_overhead_less_what_is_reused():
    runs = arms_run([Plan(("b", "c"), "merge"), Plan(("b", "a"), "merge")], ARMS)
    assert np.isnan(sum_over_run(runs, LATENCY_MS)).tolist() == [False, True]
    arms_ms = sum_over_run(runs & HAS, LATENCY_MS)
    assert arms_ms.tolist() == [9.0, 2.0]  # what the dataset lacks isn't run
    assert plan_latency_ms(arms_ms, 0.5).tolist() == [9.5, 2.5]
    reused = np.array([4.0, 7.0])
    assert reused_at_most(reused, arms_ms).tolist() == [4.0, 2.0]
    assert plan_latency_ms(arms_ms, np.array([0.5, 1.0]), reused).tolist() == [5.5, 1.0]


def test_a_plan_answers_with_its_own_ranking_where_it_made_one():
    of_arm = np.array([0.2, 0.4])
    assert answered_quality(of_arm, None).tolist() == [0.2, 0.4]
    assert answered_quality(of_arm, np.array([0.9, np.nan])).tolist() == [0.9, 0.4]
    unknown = answered_quality(of_arm, np.array([np.nan, np.nan]), np.array([True, False]))
    assert np.isnan(unknown[0]) and unknown[1] == 0.4


def test_reward_of_a_plan_that_takes_longer_than_all_arms_together():
    total_ms = np.array([10.0, 10.0, 0.0])
    rewards = plan_reward(np.array([1.0, 0.5, 0.5]), np.array([5.0, 12.0, 3.0]), total_ms, 0.5)
    # 0.5·1 + 0.5·(1 − 0.5), 0.5·0.5 + 0.5·(1 − 1.2), and no latency to weigh by: share 0.
    np.testing.assert_allclose(rewards, [0.75, 0.15, 0.75], atol=1e-12)
