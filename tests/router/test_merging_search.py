"""``Router.search`` and ``select`` where the policy answers with its own ranking."""

import pytest

import arms.catalogue
import l2r
from arms.errors import RouterError
from arms.records import Ranking
from router import Router
from router.arm_sets import ArmSet
from router.artifact import Defaults, RouterRecord, write_router
from router.policies.merging import MergingPolicy
from router.probe_features import document_name
from tests.router.fake_index import FakeArm, write_fake_index
from tests.router.merging_policies import alone, arm_set, real_arm_set
from tests.small_corpus import write_small_corpus

ARMS = ("bm25", "text_dense", "text_rerank")
RANKED = {
    # x, y: found by both; the gain of a document is the higher of its scores.
    ("npl", "bm25"): (("x", 0.30), ("y", 0.20), ("m", 0.10), *((f"b{n}", 0.05) for n in range(12))),
    ("npl", "text_dense"): (("y", 0.90), ("x", 0.25), *((f"d{n}", 0.02) for n in range(15))),
    ("npl", "text_rerank"): (("r", 0.99),),
    ("cacm", "bm25"): (("y", 0.70), ("x", 0.10)),
    ("cacm", "text_dense"): (("x", 0.80),),
    ("trec", "bm25"): (("x", 0.60), ("t", 0.70)),
}  # fmt: skip
DATASETS = {"npl": ARMS, "cacm": ARMS, "trec": ("bm25", "text_rerank")}


class Calls(list):
    """(dataset, arm, k) of every ranking made."""


@pytest.fixture
def calls(monkeypatch):
    made = Calls()

    def rank_batch(self, queries, k, clock):
        made.append((self.corpus.name, self.spec.identity, k))
        first = RANKED.get((self.corpus.name, self.spec.identity), ())[:k]
        return [Ranking(tuple(d for d, _ in first), tuple(s for _, s in first)) for _ in queries]

    monkeypatch.setattr(FakeArm, "rank_batch", rank_batch)
    monkeypatch.setattr(FakeArm, "opened", [])
    monkeypatch.setattr(arms.catalogue, "open_arm", FakeArm.open, raising=False)
    return made


def policy_of(*arm_sets, depth=10):
    arm_sets = arm_sets or (arm_set("bm25", "text_dense", top=2, k=2),)
    return MergingPolicy("merging", ARMS, [*alone(ARMS), *arm_sets], None, None, depth)


def saved_router(root, policy, datasets=DATASETS):
    """A router on disk with real models, of which ``policy`` takes the place once loaded."""
    for dataset, has in datasets.items():
        write_fake_index(root / "index", dataset, has)
    on_disk = MergingPolicy(
        "merging", ARMS, [*alone(ARMS), real_arm_set("bm25", "text_dense")], None, None, 10
    )
    record = RouterRecord(ARMS, Defaults("merging"), datasets=datasets)
    write_router(root / "router", record, [on_disk])
    router = Router.load(root / "router")
    router._policies["merging"] = policy
    return router


@pytest.fixture
def router(tmp_path, calls):
    return saved_router(tmp_path, policy_of())


def test_the_answer_is_the_policys_own_ranking_by_the_documents_ids(router, calls):
    found = router.search("who", lam=0.0, k=3, dataset="npl")
    assert found.ranking.doc_ids == ("y", "x", "d0")  # y: 0.9, x: 0.3; dense fills up
    assert found.choice.plan.combine == "merge"
    assert str(found.choice.plan) == "bm25&text_dense"
    assert found.choice.arm == "text_dense"
    assert found.choice.reason.endswith("without document history: no document found has any")
    assert 0.0 < found.choice.predicted_quality <= 1.0
    assert sum(found.choice.probabilities.values()) == pytest.approx(1.0)
    assert sorted(calls) == [("npl", "bm25", 10), ("npl", "text_dense", 10)]  # each once
    assert found.latency_ms >= found.choice.overhead_ms


@pytest.mark.parametrize("k", [1, 2, 3, 5, 10, 14, 60])
def test_any_number_of_documents(router, k):
    ranking = router.search("who", lam=0.0, k=k, dataset="npl").ranking
    preferred = [doc_id for doc_id, _ in RANKED["npl", "text_dense"]]
    expected = ["y", "x", *(one for one in preferred if one not in ("y", "x"))][:k]
    assert ranking.doc_ids == tuple(expected)
    assert len(set(ranking.doc_ids)) == len(ranking.doc_ids) == len(ranking.scores)
    assert all(a > b for a, b in zip(ranking.scores, ranking.scores[1:], strict=False))


def test_more_documents_are_asked_for_where_more_are_wanted(router, calls):
    router.search("who", lam=0.0, k=40, dataset="npl")
    assert sorted(calls) == [("npl", "bm25", 40), ("npl", "text_dense", 40)]


def test_a_deeper_search_orders_the_first_documents_alike(tmp_path, calls):
    router = saved_router(tmp_path, policy_of(arm_set("bm25", "text_dense", top=30, k=2)))
    few, many = (router.search("who", lam=0.0, k=k, dataset="npl").ranking for k in (4, 16))
    assert many.doc_ids[:4] == few.doc_ids and many.scores[:4] == few.scores


def test_two_datasets_may_call_documents_alike(router):
    answers = {
        dataset: router.search("who", lam=0.0, k=2, dataset=dataset).ranking.doc_ids
        for dataset in ("npl", "cacm")
    }
    assert answers == {"npl": ("y", "x"), "cacm": ("x", "y")}
    with pytest.raises(RouterError, match=r"has the datasets .*; name one"):
        router.search("who", lam=0.0)
    with pytest.raises(RouterError, match=r"has the datasets .*; name one"):
        router.select("who", lam=0.0)


def test_documents_go_by_names_of_their_dataset(router, monkeypatch):
    policy, seen = router._policies["merging"], []
    decide = policy.decide
    monkeypatch.setattr(
        policy,
        "decide",
        lambda queries, lam, known: seen.append(known) or decide(queries, lam, known),
    )
    router.search("who", lam=0.0, k=2, dataset="cacm")
    names = seen[0].probed["bm25"][0].doc_ids
    assert names == (document_name("cacm", "y"), document_name("cacm", "x"))


def test_a_dataset_without_one_of_the_arms(router, calls):
    found = router.search("who", lam=0.0, k=2, dataset="trec")
    # One arm is left of the set: it answers as it is.
    assert (str(found.choice.plan), found.ranking.doc_ids) == ("bm25", ("x", "t"))
    assert set(found.choice.probabilities) == {"bm25", "text_rerank"}
    assert calls == [("trec", "bm25", 2)]


def test_only_some_arms_may_answer(router, calls):
    found = router.search("who", lam=0.0, k=2, dataset="npl", arms=["bm25", "text_rerank"])
    assert str(found.choice.plan) == "bm25"
    assert calls == [("npl", "bm25", 2)]  # what may not answer isn't run
    calls.clear()
    found = router.search("who", lam=0.0, k=2, dataset="npl", arms=["text_rerank"])
    assert (str(found.choice.plan), found.ranking.doc_ids) == ("text_rerank", ("r",))
    assert found.choice.reason == "no other arm may answer"
    assert calls == [("npl", "text_rerank", 2)]
    found = router.search("who", lam=0.0, k=2, dataset="npl", arms=["bm25", "text_dense"])
    assert str(found.choice.plan) == "bm25&text_dense"


def test_selecting_runs_the_arms_and_no_more(router, calls):
    choice = router.select("who", lam=0.0, dataset="npl")
    assert (str(choice.plan), choice.arm) == ("bm25&text_dense", "text_dense")
    assert sorted(calls) == [("npl", "bm25", 10), ("npl", "text_dense", 10)]
    many = router.select_many(["who", "what"], lam=0.0, dataset="npl")
    assert [one.plan for one in many] == [choice.plan] * 2
    assert many[0].probabilities == pytest.approx(choice.probabilities)
    assert many[1].predicted_quality == choice.predicted_quality


def test_where_one_arm_is_taken_no_index_is_needed(tmp_path, router):
    # At λ = 1 (every arm alone: .2, the set: .5 of the latency) one arm answers.
    (tmp_path / "index").rename(tmp_path / "elsewhere")
    bare = Router.load(tmp_path / "router")
    for choice in (bare.select("who", lam=1.0), *bare.select_many(["who"] * 2, lam=1.0)):
        assert (choice.arm, str(choice.plan)) == ("bm25", "bm25")
        assert choice.reason == "the best arm at this λ, whatever the query"
        assert choice.predicted_quality is None
    with pytest.raises(RouterError, match=r"looks at what bm25, text_dense find .* no index lies"):
        bare.select("who", lam=0.0)


def test_where_one_arm_is_taken_it_alone_is_run(router, calls):
    found = router.search("who", lam=1.0, k=2, dataset="npl")
    assert found.ranking.doc_ids == ("x", "y")
    assert calls == [("npl", "bm25", 2)]
    choice = router.select("who", lam=1.0)  # no dataset has to be named
    assert choice.arm == "bm25"


def test_nothing_found_is_an_empty_answer(router, monkeypatch):
    monkeypatch.setattr(
        FakeArm, "rank_batch", lambda self, queries, k, clock: [Ranking((), ())] * len(queries)
    )
    found = router.search("who", lam=0.0, k=3, dataset="npl")
    assert found.ranking == Ranking((), ())
    assert found.choice.plan.combine == "merge"


def test_a_policy_read_from_disk_answers(tmp_path, calls):
    saved_router(tmp_path, policy_of())
    router = Router.load(tmp_path / "router")  # real models
    found = router.search("who", lam=0.0, k=4, dataset="npl")
    assert found.choice.plan.combine == "merge"
    assert len(set(found.ranking.doc_ids)) == 4
    assert router.probes == ("bm25", "text_dense")


# From the console, over a real index


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_small_corpus(folder / "first")
    chosen = "[bm25, {arm: bm25, granularity: paragraph}]"
    (folder / "run.yaml").write_text(f"corpus: [first]\narms: {chosen}\noutput: runs\n")
    with pytest.raises(SystemExit, match="0"):
        l2r.main(["index", str(folder / "run.yaml")])
    both = ("bm25", "bm25@paragraph")
    policy = MergingPolicy("merging", both, [*alone(both), real_arm_set(*both)], None, None, 10)
    one = MergingPolicy(
        "one",
        both,
        [*alone(both), ArmSet(("bm25",), 0.9, 0.1, real_arm_set("bm25").model)],
        None,
        None,
    )
    record = RouterRecord(both, Defaults("merging"), datasets={"first": both})
    write_router(folder / "runs" / "router", record, [policy, one])
    return folder / "runs" / "router"


def select(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        l2r.main(["select", *map(str, words)])
    return int(stopped.value.code or 0), *capsys.readouterr()


def test_the_console_searches(run, capsys):
    code, printed, _ = select(capsys, run, "bridge in Lisbon", "--lam", 0, "--k", 3)
    assert code == 0
    assert "policy         merging (merging)\n" in printed
    assert "plan           bm25" in printed and "&" in printed
    assert printed.count("-") >= 3 and "lisbon-bridge" in printed
    code, printed, _ = select(capsys, run, "bridge in Lisbon", "--lam", 1)
    assert code == 0
    assert "reason         the best arm at this λ, whatever the query" in printed
    assert "plan" not in printed


def test_the_console_tells_that_one_arm_is_ranked_anew(run, capsys):
    code, printed, _ = select(capsys, run, "bridge in Lisbon", "--policy", "one", "--k", 2)
    assert code == 0
    assert "plan           bm25&\n" in printed
