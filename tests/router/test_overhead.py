import time

import numpy as np
import pytest

from router.overhead import measure_overhead, measure_overheads
from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS


class Sleepy(StaticPolicy):
    """Takes 1 ms per character of the query; the first call takes longer."""

    def __init__(self):
        super().__init__("sleepy", ["bm25"], "bm25")
        self.batches = []

    def probabilities(self, queries, lam, known=NO_INPUTS):
        time.sleep(0.001 * len(queries[0]) + (0 if self.batches else 0.3))
        self.batches.append(list(queries))
        return super().probabilities(queries, lam)


def test_overhead_is_per_query_serial_and_warm():
    policy = Sleepy()
    times_ms = measure_overhead(policy, ["a", "abcdefghij"], 0.1, repeats=3, warm_up=1)
    assert times_ms.shape == (2,)
    assert 1 <= times_ms[0] < times_ms[1]
    assert times_ms[1] >= 10
    assert times_ms[0] < 250  # the slow first call was the warm-up
    assert policy.batches == [["a"], *[["a"], ["abcdefghij"]] * 3]


def test_overhead_of_nothing():
    assert measure_overhead(Sleepy(), [], 0.1).shape == (0,)
    assert measure_overhead(Sleepy(), ["a"], 0.1, repeats=1, warm_up=0).dtype == np.float64
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        measure_overhead(Sleepy(), ["a"], 0.1, repeats=0)


def test_policies_take_turns_at_every_query():
    both = {"one": Sleepy(), "two": Sleepy()}
    order = []
    for name, policy in both.items():
        decide = policy.decide
        policy.decide = lambda queries, lam, known, name=name, decide=decide: (
            order.append((queries[0], name)) or decide(queries, lam, known)
        )
    times_ms = measure_overheads(both, ["a", "bb"], 0.1, repeats=8, warm_up=0)
    assert set(times_ms) == {"one", "two"}
    assert [query for query, _ in order] == ["a", "a", "bb", "bb"] * 8
    pairs = {tuple(name for _, name in order[place : place + 2]) for place in range(0, 32, 2)}
    assert pairs == {("one", "two"), ("two", "one")}
