import gc
import itertools
import math
import time

import numpy as np
import pytest

from arms.arm import ArmSpec
from arms.records import Query
from oracle.latency import Timing, time_queries, warm_up
from oracle.latency_model import predict_latency_ms
from tests.oracle.fakes import PipelineArm

QUERIES = [Query(f"q{i}", f"text {i}") for i in range(6)]


def arms(**options: dict) -> dict[str, PipelineArm]:
    return {
        name: PipelineArm(ArmSpec("fake", options=given), ["a", "b"])
        for name, given in options.items()
    }


def logged(opened: dict[str, PipelineArm], monkeypatch) -> list[tuple[str, str]]:
    log: list[tuple[str, str]] = []
    for name, arm in opened.items():
        rank = arm.rank_batch

        def recorded(queries, k, clock, name=name, rank=rank):
            assert not gc.isenabled()
            log.extend((name, query) for query in queries)
            return rank(queries, k, clock)

        monkeypatch.setattr(arm, "rank_batch", recorded)
    return log


def timed(opened, queries=QUERIES, repeats=3, limit_s=None, seed="s", **more):
    return time_queries(opened, queries, k=2, repeats=repeats, limit_s=limit_s, seed=seed, **more)


def test_one_query_at_a_time_all_arms_in_each_repeat_in_random_order(monkeypatch):
    opened = arms(a={}, b={}, c={})
    log = logged(opened, monkeypatch)
    timed(opened)
    assert len(log) == 6 * 3 * 3
    rounds = [log[start : start + 3] for start in range(0, len(log), 3)]
    for number, one in enumerate(rounds):
        assert {name for name, _ in one} == {"a", "b", "c"}
        assert {text for _, text in one} == {f"text {number // 3}"}
    orders = {tuple(name for name, _ in one) for one in rounds}
    assert len(orders) >= 4  # of 6 permutations over 18 rounds
    assert gc.isenabled()


def test_the_order_is_seeded(monkeypatch):
    logs = []
    for seed in ("s", "s", "t"):
        opened = arms(a={}, b={}, c={})
        logs.append(logged(opened, monkeypatch))
        timed(opened, seed=seed)
    assert logs[0] == logs[1] != logs[2]


def test_latency_is_what_the_call_takes_and_its_stages_add_up():
    found = timed(arms(slow={"delay_s": 0.02}, fast={}), QUERIES[:2])
    slow, fast = found["q0", "slow"], found["q0", "fast"]
    assert len(slow.samples_ms) == 3
    assert 20 <= slow.latency_ms < 60
    assert fast.latency_ms < slow.latency_ms
    assert slow.stage_ms("search") == pytest.approx(slow.latency_ms, rel=0.2)
    assert slow.stage_ms("encode") == 0.0


def test_median_spread_and_middle_repeat_by_hand():
    stages = [{"search": one, "encode": 0.0, "rerank": 0.0} for one in (5.0, 1.0, 8.0)]
    timing = Timing(samples_ms=[6.0, 2.0, 9.0], stages_ms=stages)
    assert (timing.latency_ms, timing.iqr_ms) == (6.0, 3.5)
    assert timing.stage_ms("search") == 5.0
    even = Timing(samples_ms=[4.0, 1.0], stages_ms=[{"search": 3.0}, {"search": 1.0}])
    assert (even.latency_ms, even.iqr_ms, even.stage_ms("search")) == (2.5, 1.5, 2.0)


def test_a_failing_arm_keeps_its_message_and_leaves_the_others_alone():
    opened = arms(bad={"fail_on": "text 1"}, good={})
    found = timed(opened)
    assert (found["q1", "bad"].status, found["q1", "bad"].message) == (
        "error",
        "RuntimeError: poisoned by text 1",
    )
    assert math.isnan(found["q1", "bad"].latency_ms) and math.isnan(found["q1", "bad"].iqr_ms)
    assert math.isnan(found["q1", "bad"].stage_ms("search"))
    others = [one for key, one in found.items() if key != ("q1", "bad")]
    assert all(one.status == "ok" and len(one.samples_ms) == 3 for one in others)
    assert opened["bad"].calls.count(("text 1",)) == 1  # no second try


def test_a_hanging_arm_is_a_timeout():
    begin = time.perf_counter()
    found = timed(arms(bad={"hang_on": "text 1"}, good={}), limit_s=0.2)
    assert found["q1", "bad"].status == "timeout"
    assert found["q1", "bad"].message == "took longer than 0.2 s"
    assert time.perf_counter() - begin < 5


def test_a_stated_latency_is_taken_and_nothing_is_run():
    opened = arms(run={"stated_ms": 12.5}, other={})
    found = timed(opened)
    one = found["q0", "run"]
    assert (one.latency_ms, one.iqr_ms, one.samples_ms) == (12.5, 0.0, [])
    assert math.isnan(one.stage_ms("search"))
    assert opened["run"].calls == []


def test_progress_counts_pairs_and_no_queries_is_nothing():
    seen: list[int] = []
    timed(arms(a={}, b={}), advance=seen.append)
    assert seen == [2] * 6
    assert timed(arms(a={}), queries=[]) == {}


def test_warm_up_runs_every_arm_and_survives_failures():
    opened = arms(bad={"fail_on": "text 0"}, slow={"hang_on": "text 0"}, good={})
    warm_up(opened, QUERIES[:2], 2, limit_s=0.1)
    assert [len(arm.calls) for arm in opened.values()] == [2, 2, 2]


def test_latency_model_is_the_median_of_queries_of_like_length():
    lengths = np.repeat([10.0, 100.0], 10)
    latency = np.concatenate([np.arange(10) + 1.0, np.arange(10) + 101.0])
    predicted = predict_latency_ms(np.array([5.0, 10.0, 99.0, 5000.0]), lengths, latency)
    assert predicted.tolist() == [5.5, 5.5, 105.5, 105.5]


def test_latency_model_of_few_one_and_no_timed_queries():
    wanted = np.array([1.0, 9.0])
    few = predict_latency_ms(wanted, np.array([1.0, 9.0, 9.0]), np.array([1.0, 2.0, 30.0]))
    assert few.tolist() == [2.0, 2.0]
    assert predict_latency_ms(wanted, np.array([3.0]), np.array([7.0])).tolist() == [7.0, 7.0]
    assert np.isnan(predict_latency_ms(wanted, np.array([]), np.array([]))).all()


def test_latency_model_is_monotone_where_latency_grows_with_length():
    lengths = np.arange(1.0, 41.0)
    predicted = predict_latency_ms(lengths, lengths, lengths * 2)
    assert all(a <= b for a, b in itertools.pairwise(predicted))
    assert len(set(predicted.tolist())) == 4
