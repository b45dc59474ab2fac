import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

import arms.catalogue
from arms.errors import QueryError, RouterError
from router import Choice, Router
from router.artifact import Defaults, RouterRecord, policy_folder, write_router
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policies.static import StaticPolicy
from router.policies.tfidf import TfidfHead, TfidfPolicy
from router.policy import Expected, PolicyInputs, masked
from tests.router.fake_index import FakeArm, write_fake_index
from tests.router.tiny_encoders import DIM

ROOT = Path(__file__).parent.parent.parent
ARMS = ("bm25", "text_dense", "text_rerank", "none")
LAMS = (0.0, 0.1, 0.3, 1.0)
ODD_QUERIES = [
    "a",
    "what was the operating margin in 2019 ?",
    "word " * 10_000,
    "北京的河流有多长？",
    "كم طول النهر",
    "😀",
    "?!",
    "\x00\x07\x1b[31m",
]
EXPECTED = {
    "router": {
        0.0: {"bm25": Expected(0.3, 1.0, 9), "text_dense": Expected(0.4, 9.0, 8)},
        1.0: {
            arm: Expected(quality, 1.0 + quality, 9)
            for arm, quality in zip(ARMS, (0, 0.2, 0.9, 0.1), strict=True)
        },
    },
    "static:text_dense": {
        0.0: {"text_dense": Expected(0.5, 10.0, 9)},
        1.0: {"text_dense": Expected(0.2, 1.2, 9)},
    },
}


def policies(encoder_folder):
    generator = np.random.default_rng(3)
    heads = {
        lam: LinearHead(
            generator.normal(size=(4, DIM)).astype(np.float32), np.zeros(4, dtype=np.float32)
        )
        for lam in LAMS
    }
    vectorizer = TfidfVectorizer().fit(["what was the margin", "boil an egg"])
    tfidf_head = TfidfHead.constant(1, len(vectorizer.vocabulary_))
    return [
        EncoderPolicy("router", ARMS, heads, str(encoder_folder)),
        TfidfPolicy("tfidf", ARMS, vectorizer, {0.1: tfidf_head}),
        StaticPolicy("best_static", ARMS, {0.0: "text_rerank", 1.0: "bm25"}),
        StaticPolicy("static:text_dense", ARMS, "text_dense"),
    ]


@pytest.fixture(scope="module")
def folder(tiny_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "router"
    record = RouterRecord(
        arms=ARMS,
        defaults=Defaults("router"),
        lams=LAMS,
        expected=EXPECTED,
        datasets={"scifact": ARMS, "npl": ("bm25", "text_dense")},
        arm_options={"bm25": {"k1": 0.9}},
    )
    write_router(folder, record, policies(tiny_bert))
    return folder


@pytest.fixture(scope="module")
def router(folder):
    return Router.load(folder)


# Selecting


@pytest.mark.parametrize("query", ODD_QUERIES)
@pytest.mark.parametrize("policy", ["router", "tfidf", "best_static"])
def test_select_any_text(router, query, policy):
    choice = router.select(query, lam=0.1, policy=policy)
    assert isinstance(choice, Choice)
    assert list(choice.probabilities) == ["bm25", "text_dense", "text_rerank"]
    assert sum(choice.probabilities.values()) == pytest.approx(1.0, abs=1e-9)
    assert choice.arm == max(choice.probabilities, key=choice.probabilities.__getitem__)
    assert choice.policy == policy
    assert choice.overhead_ms > 0


def test_select_many_equals_select(router):
    queries = [query for query in ODD_QUERIES if len(query) < 100]
    together = router.select_many(queries, lam=0.3)
    for query, choice in zip(queries, together, strict=True):
        alone = router.select(query, lam=0.3)
        assert choice.arm == alone.arm
        assert choice.lam_used == alone.lam_used == 0.3
        np.testing.assert_allclose(
            list(choice.probabilities.values()), list(alone.probabilities.values()), atol=1e-5
        )
    assert router.select_many([], lam=0.3) == []
    assert np.ptp([choice.probabilities["bm25"] for choice in together]) > 0.01


@pytest.mark.parametrize(
    ("lam", "used"),
    [(0, 0.0), (0.05, 0.0), (0.2, 0.1), (0.25, 0.3), (0.65, 0.3), (np.float32(1), 1.0)],
)
def test_lam_between_trained_ones(router, lam, used):
    choice = router.select("who", lam=lam)
    assert (choice.lam, choice.lam_used) == (pytest.approx(float(lam)), used)
    assert choice.probabilities == pytest.approx(router.select("who", lam=used).probabilities)


def test_any_lam_where_a_policy_takes_any(router):
    assert router.select("who", lam=0.37, policy="static:text_dense").lam_used == 0.37


@pytest.mark.parametrize("lam", [-0.1, 1.1, float("nan"), float("inf"), "0.1", True, 1j])
def test_lam_that_is_no_weight(router, lam):
    with pytest.raises(RouterError, match=r"lam must be a number in \[0, 1\] .*, got"):
        router.select("who", lam=lam)
    with pytest.raises(RouterError, match="lam must be a number"):
        router.select_many([], lam=lam)


@pytest.mark.parametrize("query", ["", "  \t\n", None, 3, b"who"])
def test_query_that_is_none(router, query):
    with pytest.raises(QueryError, match="query"):
        router.select(query)
    with pytest.raises(QueryError, match="query"):
        router.select_many(["who", query])


@pytest.mark.parametrize("policy", ["router", "tfidf", "best_static"])
def test_a_query_that_isnt_utf8(folder, index, policy):
    router = Router.load(folder, index=index, policy=policy)
    told = r"expected a query that can be written as UTF-8, got '\\ud800' at character 5; remove"
    with pytest.raises(QueryError, match=told):
        router.select("bad \ud800")
    with pytest.raises(QueryError, match=told):
        router.select_many(["who", "bad \ud800"])
    with pytest.raises(QueryError, match=told):
        router.search("bad \ud800", dataset="npl")
    assert FakeArm.opened == []


def test_select_many_of_one_text_is_a_slip(router):
    with pytest.raises(QueryError, match="use select"):
        router.select_many("who")


# Masking


def test_masked_arms_leave_and_the_rest_is_renormalised(router):
    free = router.select("who", lam=0.1).probabilities
    choice = router.select("who", lam=0.1, arms=["text_rerank", "bm25"])
    assert list(choice.probabilities) == ["bm25", "text_rerank"]
    ratio = free["bm25"] / (free["bm25"] + free["text_rerank"])
    assert choice.probabilities["bm25"] == pytest.approx(ratio)
    assert router.select("who", arms="bm25").probabilities == {"bm25": 1.0}


def test_none_is_chosen_only_where_named(router):
    assert "none" not in router.select("who").probabilities
    assert router.select("who", arms=["none"]).arm == "none"


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([], "no arm is left to choose: allow at least one of bm25"),
        (["bm25", "colbert"], "knows the arms bm25, .*; got colbert"),
        ([3], "got 3"),
    ],
)
def test_arms_that_cant_be_allowed(router, arms, message):
    with pytest.raises(RouterError, match=message):
        router.select("who", arms=arms)


def test_ties_go_to_the_earlier_arm(tmp_path, tiny_bert):
    flat = {0.1: LinearHead(np.zeros((4, DIM), np.float32), np.zeros(4, np.float32))}
    policy = EncoderPolicy("router", ARMS, flat, str(tiny_bert))
    write_router(tmp_path / "router", RouterRecord(ARMS, Defaults("router")), [policy])
    router = Router.load(tmp_path / "router")
    assert router.select("who").arm == "bm25"
    assert router.select("who", arms=["text_rerank", "text_dense"]).arm == "text_dense"


def test_masked_by_hand():
    rows = np.array([[0.5, 0.3, 0.2], [1.0, 0.0, 0.0]])
    allowed = np.array([[False, True, True]] * 2)
    got = masked(rows, PolicyInputs(competes=allowed, preference=np.array([9.0, 0.1, 0.4])))
    np.testing.assert_allclose(got, [[0, 0.6, 0.4], [0, 0.0, 1.0]])
    np.testing.assert_allclose(masked(rows, PolicyInputs(competes=allowed))[1], [0, 1.0, 0.0])
    assert masked(rows, PolicyInputs()) is rows


def test_a_policy_without_an_allowed_arm_falls_back_on_what_labels_say(router):
    """At λ = 1 the least latency is bm25's; without it, none's, then text_dense's."""
    allowed = ["text_dense", "none"]
    assert router.select("who", lam=1.0, policy="best_static", arms=allowed).arm == "none"
    # At λ = 0 the nearest record of text_rerank and none is that of λ = 1.
    assert router.select("who", lam=0.0, policy="tfidf", arms=["bm25", "text_rerank"]).arm == (
        "text_rerank"
    )


# What to expect


def test_expected_is_that_of_the_nearest_recorded_lam(router):
    choice = router.select("who", lam=0.0, policy="static:text_dense")
    assert choice.expected == Expected(0.5, 10.0, 9)
    assert router.select("who", lam=0.9, policy="static:text_dense").expected.quality == 0.2
    assert router.select("who", lam=0.5, policy="static:text_dense").expected.quality == 0.5
    assert router.expected("text_rerank", 0.0) == Expected(0.9, 1.9, 9)


def test_expected_is_that_of_the_policy_that_chose(router):
    """The default policy's traffic says nothing of another policy's."""
    assert router.expected("text_dense", 0.0) == Expected(0.4, 9.0, 8)
    assert router.expected("text_dense", 0.0, "static:text_dense") == Expected(0.5, 10.0, 9)
    assert router.expected("bm25", 0.0, "static:text_dense") is None
    assert router.select("who", lam=1.0, policy="best_static").expected is None


def test_the_kind_of_policy_is_told(router):
    chosen = [router.select("who", policy=name) for name in (None, "tfidf", "best_static")]
    assert [(one.policy, one.policy_kind) for one in chosen] == [
        ("router", "encoder"), ("tfidf", "tfidf"), ("best_static", "static"),
    ]  # fmt: skip


def test_nothing_to_expect_is_none(tmp_path):
    policy = StaticPolicy("static:bm25", ["bm25"], "bm25")
    write_router(tmp_path / "router", RouterRecord(("bm25",), Defaults(policy.name)), [policy])
    assert Router.load(tmp_path / "router").select("who").expected is None


# Loading


def test_another_default_policy(folder):
    assert Router.load(folder, policy="best_static").select("who", lam=0).policy == "best_static"
    with pytest.raises(RouterError, match=r"has the policies router, tfidf, .*; got 'forest'"):
        Router.load(folder, policy="forest")
    with pytest.raises(RouterError, match="got 'forest'"):
        Router.load(folder).select("who", policy="forest")


def test_a_policy_of_other_arms_is_refused(tmp_path):
    folder = tmp_path / "router"
    policy = StaticPolicy("static:bm25", ARMS, "bm25")
    write_router(folder, RouterRecord(ARMS, Defaults(policy.name)), [policy])
    other = StaticPolicy("static:bm25", ("bm25", "text_dense"), "bm25")
    other.save(policy_folder(folder, policy.name))
    with pytest.raises(RouterError, match="its files are of another router"):
        Router.load(folder)


def test_a_static_router_selects_with_numpy_alone(folder):
    code = (
        "import sys; from router import Router;"
        f"router = Router.load({str(folder)!r}, policy='best_static');"
        "assert router.select('who', lam=0).arm == 'text_rerank';"
        "print(' '.join(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    heavy = {"torch", "sklearn", "scipy", "transformers", "pyarrow", "pydantic", "safetensors"}
    assert not loaded & heavy


def test_threads_load_lazily_and_agree(folder, router):
    queries = ["who", "boil an egg", "what was the operating margin in 2019 ?"]
    asked = [
        (query, lam, policy)
        for query in queries
        for lam in (0.0, 0.1, 1.0)
        for policy in ("router", "tfidf", "best_static")
    ]
    wanted = [router.select(query, lam, policy=policy) for query, lam, policy in asked]
    fresh = Router.load(folder, policy="best_static")
    barrier, answers = threading.Barrier(8), [None] * 8

    def work(number):
        barrier.wait()
        answers[number] = [fresh.select(query, lam, policy=policy) for query, lam, policy in asked]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for given in answers:
        assert [choice.arm for choice in given] == [choice.arm for choice in wanted]
        for choice, reference in zip(given, wanted, strict=True):
            assert choice.probabilities == pytest.approx(reference.probabilities, abs=1e-6)


# Searching


@pytest.fixture
def index(tmp_path, monkeypatch):
    write_fake_index(tmp_path / "index", "scifact", ["bm25", "text_dense", "text_rerank"])
    write_fake_index(tmp_path / "index", "npl", ["bm25", "text_dense"])
    monkeypatch.setattr(arms.catalogue, "open_arm", FakeArm.open, raising=False)
    monkeypatch.setattr(FakeArm, "opened", [])
    return tmp_path / "index"


def test_search_runs_the_chosen_arm(folder, index):
    router = Router.load(folder, index=index)
    found = router.search("who", lam=0.1, k=3, dataset="scifact")
    assert found.choice.arm == router.select("who", lam=0.1).arm
    assert found.ranking.doc_ids == tuple(f"scifact-{found.choice.arm}-{row}" for row in range(3))
    assert found.latency_ms >= found.choice.overhead_ms


def test_search_opens_arms_once_with_their_options_and_without_a_corpus(folder, index):
    router = Router.load(folder, index=index)
    for _ in range(2):
        router.search("who", dataset="npl", arms=["bm25"])
    assert FakeArm.opened == ["npl/bm25"]
    arm = router._open_arms.arm("npl", "bm25")
    assert arm.spec.options == {"k1": 0.9}
    assert (arm.corpus.fingerprint, len(arm.corpus)) == ("fingerprint of npl", 7)
    assert arm.corpus.language == "german"
    with pytest.raises(RouterError, match="not at hand when serving"):
        list(arm.corpus)


def test_search_masks_what_the_dataset_lacks(folder, index):
    router = Router.load(folder, index=index)
    found = router.search("who", lam=0.0, dataset="npl", policy="best_static")
    assert list(found.choice.probabilities) == ["bm25", "text_dense"]


def test_selecting_for_a_dataset_masks_as_searching_does(folder, index):
    router = Router.load(folder, index=index)
    asked = {"lam": 0.0, "dataset": "npl", "policy": "best_static"}
    found = router.search("who", **asked).choice
    FakeArm.opened.clear()
    for choice in (router.select("who", **asked), *router.select_many(["who", "what"], **asked)):
        assert choice.arm == found.arm
        assert choice.probabilities == found.probabilities
        assert list(choice.probabilities) == ["bm25", "text_dense"]
    assert FakeArm.opened == []
    free = router.select("who", lam=0.0, policy="best_static")
    assert free.arm == "text_rerank"
    assert Router.load(folder).select("who", **asked).arm == "text_rerank"  # no index: as it was


@pytest.mark.parametrize("ask", ["select", "select_many", "search"])
def test_a_dataset_without_any_allowed_arm(folder, index, ask):
    call = getattr(Router.load(folder, index=index), ask)
    given = ["who"] if ask == "select_many" else "who"
    with pytest.raises(RouterError, match=r"'npl' has none .*, text_rerank; allow .* bm25, text_d"):
        call(given, dataset="npl", arms=["text_rerank"])
    with pytest.raises(RouterError, match="datasets npl, scifact; got 'trec'"):
        call(given, dataset="trec")


def test_search_in_threads_opens_each_arm_once(folder, index):
    router = Router.load(folder, index=index)
    barrier, answers = threading.Barrier(8), []

    def work():
        barrier.wait()
        answers.append(router.search("who", dataset="scifact", arms=["bm25"]).ranking)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert FakeArm.opened == ["scifact/bm25"]
    assert answers == [answers[0]] * 8


def test_search_needs_to_know_the_dataset(folder, index):
    router = Router.load(folder, index=index)
    with pytest.raises(RouterError, match=r"datasets npl, scifact; name one \(dataset=.*--dataset"):
        router.search("who")
    with pytest.raises(RouterError, match="datasets npl, scifact; got 'trec'"):
        router.search("who", dataset="trec")


def test_one_dataset_neednt_be_named(folder, tmp_path, index):
    write_fake_index(tmp_path / "only", "scifact", ARMS[:3])
    found = Router.load(folder, index=tmp_path / "only").search("who")
    assert found.ranking.doc_ids[0].startswith("scifact-")


def test_search_where_the_index_lacks_an_arm(folder, tmp_path, index):
    write_fake_index(tmp_path / "other", "scifact", ["bm25"])
    router = Router.load(folder, index=tmp_path / "other")
    with pytest.raises(RouterError, match=r"lacks the router's arms text_dense, text_rerank; run"):
        router.search("who", dataset="scifact")
    assert router.search("who", dataset="scifact", arms=["bm25"]).choice.arm == "bm25"


def test_search_without_an_index(folder, tmp_path):
    with pytest.raises(RouterError, match="search needs an index"):
        Router.load(folder).search("who")
    with pytest.raises(RouterError, match="nowhere"):
        Router.load(folder, index=tmp_path / "nowhere")


def test_the_recorded_index_is_found_beside_the_router(tmp_path, index):
    policy = StaticPolicy("static:bm25", ("bm25",), "bm25")
    record = RouterRecord(("bm25",), Defaults(policy.name), index="../index")
    write_router(tmp_path / "router", record, [policy])
    assert Router.load(tmp_path / "router").search("who", dataset="npl", k=1).ranking.doc_ids == (
        "npl-bm25-0",
    )
    write_router(tmp_path / "router", replace(record, index="../gone"), [policy])
    assert Router.load(tmp_path / "router").select("who").arm == "bm25"


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", None, True])
def test_k_that_is_no_count(folder, index, k):
    with pytest.raises(RouterError, match="k must be a whole number of at least 1"):
        Router.load(folder, index=index).search("who", dataset="npl", k=k)
