"""Policies whose plan has more than one arm: probes before the choice, fused answers."""

import numpy as np
import pytest

import arms.catalogue
import arms.pipelines.fusion
from arms.errors import RouterError
from router import Router
from router.artifact import Defaults, RouterRecord, write_router
from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS, Decisions, Plan
from tests.router.fake_index import FakeArm, write_fake_index

ARMS = ("bm25", "text_dense", "text_rerank")


class Looking(StaticPolicy):
    """Answers with text_rerank where bm25's second document is called as expected, else bm25."""

    probes = ("bm25",)
    probe_depth = 2

    def decide(self, queries, lam, known=NO_INPUTS):
        self.seen = probed = known.probed
        rows, plans = np.zeros((len(queries), 3)), []
        for row, _ in enumerate(queries):
            found = probed["bm25"][row].doc_ids if "bm25" in probed else ()
            good = len(found) == 2 and found[1].endswith("bm25-1")
            plans.append(Plan(("bm25", "text_rerank"), "cascade") if good else Plan(("bm25",)))
            rows[row, 2 if good else 0] = 1.0
        return Decisions(tuple(plans), rows, np.full(len(queries), 0.25), ("seen",) * len(queries))


class Fusing(StaticPolicy):
    def decide(self, queries, lam, known=NO_INPUTS):
        rows = np.tile([0.6, 0.4, 0.0], (len(queries), 1))
        return Decisions((Plan(("bm25", "text_dense"), "fuse"),) * len(queries), rows)


@pytest.fixture
def router(tmp_path, monkeypatch):
    write_fake_index(tmp_path / "index", "npl", ARMS)
    monkeypatch.setattr(arms.catalogue, "open_arm", FakeArm.open, raising=False)
    monkeypatch.setattr(FakeArm, "opened", [])
    policies = [StaticPolicy(name, ARMS, "bm25") for name in ("looking", "fusing")]
    write_router(tmp_path / "router", RouterRecord(ARMS, Defaults("looking")), policies)
    router = Router.load(tmp_path / "router")
    router._policies["looking"] = Looking("looking", ARMS, "bm25")
    router._policies["fusing"] = Fusing("fusing", ARMS, "bm25")
    return router


def test_probes_are_run_to_their_depth_and_the_plan_is_told(router):
    choice = router.select("who")
    assert (choice.arm, str(choice.plan)) == ("text_rerank", "bm25>text_rerank")
    assert (choice.predicted_quality, choice.reason) == (0.25, "seen")
    seen = router._policies["looking"].seen
    assert [len(one.doc_ids) for one in seen["bm25"]] == [2]
    assert all(name.startswith("npl/") for name in seen["bm25"][0].doc_ids)
    assert sorted(FakeArm.opened) == ["npl/bm25"]  # selecting runs the probes alone


def test_search_answers_with_the_last_arm_and_runs_no_probe_twice(router, monkeypatch):
    calls = []
    rank = FakeArm.rank_batch
    monkeypatch.setattr(
        FakeArm,
        "rank_batch",
        lambda self, queries, k, clock: (
            calls.append((self.spec.identity, k)) or rank(self, queries, k, clock)
        ),
    )
    found = router.search("who", k=4)
    assert found.ranking.doc_ids == tuple(f"npl-text_rerank-{row}" for row in range(4))
    assert calls == [("bm25", 4), ("text_rerank", 4)]
    assert found.latency_ms >= found.choice.overhead_ms
    calls.clear()
    monkeypatch.setattr(Looking, "probe_depth", 1)
    found = router.search("who", k=4)
    assert found.ranking.doc_ids == tuple(f"npl-bm25-{row}" for row in range(4))
    assert calls == [("bm25", 4)]
    assert len(router._policies["looking"].seen["bm25"][0].doc_ids) == 1


def test_fused_answers(router):
    found = router.search("who", k=2, policy="fusing")
    assert (found.choice.arm, str(found.choice.plan)) == ("bm25", "bm25+text_dense")
    assert found.ranking.doc_ids == ("npl-bm25-0", "npl-text_dense-0")


def test_selecting_by_a_probing_policy_needs_an_index(tmp_path):
    write_router(
        tmp_path / "r", RouterRecord(ARMS, Defaults("x")), [StaticPolicy("x", ARMS, "bm25")]
    )
    router = Router.load(tmp_path / "r")
    router._policies["x"] = Looking("x", ARMS, "bm25")
    with pytest.raises(RouterError, match="looks at what bm25 find"):
        router.select("who")


def test_where_one_arm_may_answer_no_probe_is_run(router):
    found = router.search("who", k=3, arms=["text_rerank"])
    assert found.ranking.doc_ids == tuple(f"npl-text_rerank-{row}" for row in range(3))
    assert FakeArm.opened == ["npl/text_rerank"]
    choice = found.choice
    assert (choice.arm, choice.plan) == ("text_rerank", Plan(("text_rerank",)))
    assert choice.probabilities == {"text_rerank": 1.0}
    assert (choice.predicted_quality, choice.reason) == (None, "no other arm may answer")
    for one in router.select_many(["who", "what"], arms="text_dense"):
        assert (one.arm, one.plan.arms) == ("text_dense", ("text_dense",))
    assert FakeArm.opened == ["npl/text_rerank"]
    router.search("who", arms=["text_dense", "text_rerank"])
    assert "npl/bm25" in FakeArm.opened  # several may answer: the probe is looked at
