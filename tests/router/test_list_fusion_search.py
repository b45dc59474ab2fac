"""``Router.search`` and ``select`` where the policy fuses lists itself."""

import pytest

import l2r
from arms.errors import RouterError
from router import Router
from router.arm_sets import ArmSet
from router.artifact import Defaults, Expected, RouterRecord, write_router
from router.policies.list_fusion import ListFusionPolicy
from router.probe_features import document_name
from tests.router.fake_index import write_fake_index
from tests.router.test_list_fusion import fusion, prior_of
from tests.router.test_merging_search import ARMS, DATASETS, calls

__all__ = ["calls"]  # a fixture: what was run, and how deep


def policy_of(*, prior=None, own=(0.0, 1.0)):
    """Both lists alike; on ``cacm`` BM25 alone counts, where weights are of two lists."""
    weights = (0.5, 0.5) if prior is None else (0.4, 0.4, 0.2)
    of_datasets = {} if prior is not None else {"cacm": own}
    fused = fusion(*weights, arms=ARMS[:2], **of_datasets)
    alone = [
        ArmSet((arm,), q, s)
        for arm, q, s in zip(ARMS, (0.4, 0.6, 0.5), (0.01, 0.3, 0.69), strict=True)
    ]
    sets = [*alone, ArmSet(ARMS[:2], 0.8, 0.35, fused, latency_ms=9.0, queries=5)]
    return ListFusionPolicy("tuned_fusion", ARMS, sets, prior, 10)


def saved_router(root, policy):
    for dataset, has in DATASETS.items():
        write_fake_index(root / "index", dataset, has)
    record = RouterRecord(ARMS, Defaults("tuned_fusion"), datasets=DATASETS)
    write_router(root / "router", record, [policy])
    return Router.load(root / "router")


@pytest.fixture
def router(tmp_path, calls):
    return saved_router(tmp_path, policy_of())


def test_both_arms_are_run_once_and_their_lists_fused(router, calls):
    found = router.search("who", lam=0.0, k=3, dataset="npl")
    # bm25: x 1, y 2/3, m 1/3, b… 1/6, else 1/6; dense: y 1, x .278, d… .022, else .022.
    assert found.ranking.doc_ids == ("y", "x", "m")
    assert found.ranking.scores == pytest.approx((0.8333, 0.6389, 0.1778), abs=1e-4)
    assert sorted(calls) == [("npl", "bm25", 10), ("npl", "text_dense", 10)]
    choice = found.choice
    assert (str(choice.plan), choice.arm, choice.policy_kind) == (
        "text_dense+bm25",
        "text_dense",
        "list_fusion",
    )
    assert choice.expected == Expected(0.8, 9.0, 5) and choice.expects_plan
    assert sum(choice.probabilities.values()) == pytest.approx(1.0)


def test_a_dataset_with_weights_of_its_own(router):
    answers = {
        dataset: router.search("who", lam=0.0, k=2, dataset=dataset).ranking.doc_ids
        for dataset in ("npl", "cacm")
    }
    # cacm: dense alone counts; it finds x, and says nothing of others.
    assert answers == {"npl": ("y", "x"), "cacm": ("x", "y")}


def test_a_dataset_that_lacks_an_arm_has_the_best_of_the_others(router, calls):
    found = router.search("who", lam=0.0, k=2, dataset="trec")
    assert str(found.choice.plan) == "text_rerank" and not found.choice.expects_plan
    assert calls == [("trec", "text_rerank", 2)]


def test_more_documents_than_were_fused_are_filled_up_from_the_preferred_arm(router, calls):
    ranking = router.search("who", lam=0.0, k=30, dataset="npl").ranking
    assert sorted(calls) == [("npl", "bm25", 30), ("npl", "text_dense", 30)]
    assert ranking.doc_ids[-7:] == tuple(f"d{number}" for number in range(8, 15))
    assert len(set(ranking.doc_ids)) == len(ranking.doc_ids)
    assert all(a >= b for a, b in zip(ranking.scores, ranking.scores[1:], strict=False))


def test_near_1_the_cheap_arm_answers_and_nothing_is_fused(router, calls):
    found = router.search("who", lam=1.0, k=2, dataset="npl")
    assert str(found.choice.plan) == "bm25" and calls == [("npl", "bm25", 2)]
    assert router.select("who", lam=1.0).arm == "bm25"
    assert calls == [("npl", "bm25", 2)]


def test_select_runs_the_probes_and_takes_the_same_plan(router, calls):
    chosen = router.select("who", lam=0.0, dataset="npl")
    assert str(chosen.plan) == "text_dense+bm25"
    many = router.select_many(["who", "what"], lam=0.0, dataset="npl")
    assert [one.plan for one in many] == [chosen.plan] * 2
    assert {arm for _, arm, _ in calls} == {"bm25", "text_dense"}


def test_only_allowed_arms_are_run(router, calls):
    found = router.search("who", lam=0.0, k=1, dataset="npl", arms=["bm25", "text_rerank"])
    assert str(found.choice.plan) == "text_rerank"
    assert calls == [("npl", "text_rerank", 1)]


def test_a_prior_is_of_the_datasets_own_documents(tmp_path, calls):
    prior = prior_of(**{document_name("npl", "b3"): 9, document_name("cacm", "m"): 9})
    router = saved_router(tmp_path, policy_of(prior=prior))
    found = router.search("who", lam=0.0, k=3, dataset="npl")
    assert found.ranking.doc_ids == ("y", "x", "b3")


def test_the_console_says_what_is_expected_of_the_arms_fused(router, tmp_path, capsys):
    l2r.app(
        ["select", str(router.folder), "who", "--lam", "0", "--dataset", "npl"],
        standalone_mode=False,
    )
    told = capsys.readouterr().out
    assert "plan           text_dense+bm25" in told
    assert "quality 0.800, latency 9.0 ms: the arms fused, deciding included, over 5" in told


def test_without_an_index_it_says_what_it_needs(tmp_path):
    record = RouterRecord(ARMS, Defaults("tuned_fusion"), datasets=DATASETS)
    write_router(tmp_path / "router", record, [policy_of()])
    with pytest.raises(RouterError, match="no index lies beside"):
        Router.load(tmp_path / "router").select("who", lam=0.0, dataset="npl")
