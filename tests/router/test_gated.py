"""The best single arm answers unless a gate is open, the dataset known and the margin met."""

import json
import math

import numpy as np
import pytest

from arms.errors import RouterError
from arms.records import Ranking
from router import Router
from router.artifact import Defaults, RouterRecord, write_router
from router.policies import load_policy
from router.policies.gated import CLOSED_KEY, Gate, GatedPolicy, behind, best_arms
from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS, Decisions, Plan, PolicyInputs

ARMS = ("bm25", "text_dense", "text_rerank")
QUALITY, SHARE = np.array([0.5, 0.6, 0.7]), np.array([0.05, 0.25, 0.7])
"""Reward at λ = 0: 0.5, 0.6, 0.7; at 0.5: 0.725, 0.675, 0.5."""
OPEN, WIDE, CLOSED = Gate(0.0, 0.02, 0.005, 100), Gate(0.7, 0.01, 0.005, 100), None
CLOSED = Gate(math.inf, -0.01, 0.005, 100)


class Inner(StaticPolicy):
    """Prefers text_dense: .6, .3 for bm25, .1 for text_rerank; counts how often it is asked."""

    asked = 0

    def probabilities(self, queries, lam, known=NO_INPUTS):
        self.asked += len(queries)
        return np.tile([0.3, 0.6, 0.1], (len(queries), 1))


def gated(gates=None, datasets=("reports",), inner=None):
    policy = inner or Inner("inner", ARMS, "text_dense")
    given = {0.0: OPEN, 0.5: CLOSED} if gates is None else gates
    return GatedPolicy("router", policy, given, QUALITY, SHARE, datasets)


def test_an_open_gate_lets_the_inner_policy_choose():
    policy = gated()
    decided = policy.decide(["a", "b"], 0.0)
    assert [plan.arms for plan in decided.plans] == [("text_dense",)] * 2
    assert decided.reasons == (None, None)
    assert decided.unasked.tolist() == [False, False]
    assert decided.probabilities[0].tolist() == pytest.approx([0.3, 0.6, 0.1])


def test_a_closed_gate_never_asks():
    policy = gated()
    decided = policy.decide(["a", "b"], 0.5)
    assert [plan.arms for plan in decided.plans] == [("bm25",)] * 2  # .725 against .675 and .5
    assert policy.inner.asked == 0
    assert decided.unasked.tolist() == [True, True]
    assert "didn't pay at this λ" in decided.reasons[0]
    assert policy.embed(["a"], 0.5) is None and not policy.embeds_at(0.5)
    assert not policy.asks_at(0.5) and policy.asks_at(0.0)


@pytest.mark.parametrize(
    ("lam", "is_open"), [(0.0, True), (0.25, True), (0.26, False), (0.9, False)]
)
def test_between_gates_the_nearest_counts_the_smaller_of_two_equally_near(lam, is_open):
    assert gated().asks_at(lam) is is_open


def test_a_dataset_that_training_never_saw_gets_the_best_single_arm():
    policy = gated()
    known = PolicyInputs(datasets=["reports", "letters"])
    decided = policy.decide(["a", "b"], 0.0, known)
    assert [plan.answering_arm for plan in decided.plans] == ["text_dense", "text_rerank"]
    assert decided.unasked.tolist() == [False, True]
    assert policy.inner.asked == 1
    assert "no training query is of 'letters'" in decided.reasons[1]
    assert not policy.asks_at(0.0, "letters") and policy.asks_at(0.0, "reports")


def test_a_query_leaves_the_best_arm_only_by_the_margin():
    # log(.6 / .1) = 1.79 over text_rerank, the best arm at λ = 0
    near = gated({0.0: Gate(1.7, 0.1, 0.01, 9)}).decide(["a"], 0.0)
    far = gated({0.0: Gate(1.8, 0.1, 0.01, 9)}).decide(["a"], 0.0)
    assert near.plans == (Plan(("text_dense",)),)
    assert far.plans == (Plan(("text_rerank",)),)
    assert far.reasons == ("no other arm is preferred by the margin that pays at this λ",)
    assert far.unasked.tolist() == [False]  # it was asked, and is charged


def test_behind_by_hand():
    decided = Decisions(
        (Plan(("bm25",)), Plan(("text_dense",)), Plan(("text_dense",)), Plan(("bm25",))),
        np.array([[0.5, 0.4, 0.1], [0.4, 0.6, 0.0], [0.0, 1.0, 0.0], [0.6, 0.4, 0.0]]),
    )
    best = np.array([1, 0, 0, 0])
    # log(.5/.4) = .22, log(.6/.4) = .41, infinite, the best arm itself
    assert behind(decided, best, ARMS, 0.3).tolist() == [True, False, False, False]


def test_an_arm_that_may_not_answer_never_does():
    competes = np.array([[True, True, False]])
    assert best_arms(QUALITY, SHARE, 0.0, competes, 1).tolist() == [1]
    decided = gated({0.0: CLOSED}).decide(["a"], 0.0, PolicyInputs(competes=competes))
    assert decided.plans == (Plan(("text_dense",)),)
    asked = gated().decide(["a"], 0.0, PolicyInputs(competes=np.array([[True, False, True]])))
    assert asked.plans == (Plan(("bm25",)),)  # .75 of what is left, .25 for text_rerank


class ProbeResults(Inner):
    """Runs bm25 first."""

    def __init__(self):
        super().__init__("inner", ARMS, "text_dense")
        self.probes, self.probe_depth = ("bm25",), 5

    def decide(self, queries, lam, known=NO_INPUTS):
        assert len(known.probed["bm25"]) == len(queries)
        plan = Plan(("bm25", "text_dense"), "cascade")
        rows = np.tile([0.3, 0.6, 0.1], (len(queries), 1))
        return Decisions((plan,) * len(queries), rows, np.full(len(queries), 0.8))


def test_probes_that_were_run_stay_in_the_plan():
    policy = gated({0.0: Gate(1.8, 0.1, 0.01, 9), 1.0: CLOSED}, inner=ProbeResults())
    found = [Ranking(("a",), (1.0,)), Ranking(("b",), (1.0,))]
    known = PolicyInputs(probed={"bm25": found}, datasets=["letters", "reports"])
    decided = policy.decide(["a", "b"], 0.0, known)
    assert decided.plans == (Plan(("text_rerank",)), Plan(("bm25", "text_rerank"), "cascade"))
    assert np.isnan(decided.predicted_quality).all()  # predicted for another arm's answer
    assert policy.probes_at(0.0) == ("bm25",) and policy.probes_at(1.0) == ()


def test_keys_tell_open_from_closed():
    policy = gated()
    assert policy.overhead_key(0.5) == CLOSED_KEY
    assert policy.overhead_key(0.0) == 1 + policy.inner.overhead_key(0.0)
    assert policy.overhead_keys() == {CLOSED_KEY: 0.5, 1: 0.0}


def test_saved_and_read_it_decides_the_same(tmp_path):
    policy = gated({0.0: WIDE, 0.5: CLOSED}, inner=StaticPolicy("inner", ARMS, "text_dense"))
    policy.save(tmp_path)
    read = load_policy(tmp_path)
    assert isinstance(read, GatedPolicy)
    assert read.gates == policy.gates and read.datasets == policy.datasets
    for lam in (0.0, 0.2, 0.5):
        known = PolicyInputs(datasets=["reports", "letters"])
        ours, theirs = policy.decide(["a", "b"], lam, known), read.decide(["a", "b"], lam, known)
        assert ours.plans == theirs.plans and ours.reasons == theirs.reasons


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gates", [{"lam": 0.0, "margin": -1.0, "gain": 0.1, "error": 0.1, "queries": 5}]),
        ("gates", [{"lam": 0.0}]),
        ("gates", []),
        ("quality", [0.5]),
        ("quality", [0.5, None, 0.7]),
        ("latency_share", "x"),
    ],
)
def test_damaged_files_are_refused(tmp_path, key, value):
    gated(inner=StaticPolicy("inner", ARMS, "text_dense")).save(tmp_path)
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(RouterError):
        load_policy(tmp_path)


def test_a_gate_for_each_lam_of_a_policy_that_has_some():
    inner = StaticPolicy("inner", ARMS, {0.0: "text_rerank", 0.5: "bm25"})
    with pytest.raises(RouterError, match="a gate for each λ"):
        gated({0.0: OPEN}, inner=inner)


def test_select_names_the_dataset(tmp_path):
    folder = tmp_path / "router"
    inner = StaticPolicy("inner", ARMS, "text_dense")
    record = RouterRecord(ARMS, Defaults("router"), datasets={"reports": ARMS})
    write_router(folder, record, [gated(inner=inner)])
    router = Router.load(folder)
    assert router.select("a", lam=0.0, dataset="reports").arm == "text_dense"
    assert router.select("a", lam=0.0).arm == "text_dense"
    other = router.select("a", lam=0.0, dataset="letters")
    assert other.arm == "text_rerank" and "letters" in other.reason
    assert router.select("a", lam=0.7).arm == "bm25"
    assert sum(other.probabilities.values()) == pytest.approx(1.0)
