"""``Router.search`` over real arms, opened without their corpus."""

import pytest

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.corpora.corpus import MemoryCorpus
from arms.errors import ArmIndexError
from arms.records import Document
from router import Router
from router.artifact import Defaults, RouterRecord, write_router
from router.policies.static import StaticPolicy

CORPUS = MemoryCorpus(
    "flüsse",
    [
        Document("rhein", "Rhein", "Der Rhein fließt durch Köln und Basel. Er ist lang."),
        Document("elbe", "Elbe", "Die Elbe fließt durch Dresden. Viele Schiffe fahren dort."),
        Document("kuchen", "", "Kuchen backt man mit Mehl und Eiern."),
    ],
    language="german",
)
FUSED = {"arms": ["bm25", {"arm": "bm25", "granularity": "paragraph"}]}


def routed(tmp_path, specs):
    for spec in specs:
        build_arm(spec, CORPUS, tmp_path / "index" / CORPUS.name)
    names = tuple(spec.identity for spec in specs)
    policy = StaticPolicy("first", names, names[0])
    options = {spec.identity: dict(spec.options) for spec in specs}
    record = RouterRecord(names, Defaults(policy.name), arm_options=options)
    write_router(tmp_path / "router", record, [policy])
    return Router.load(tmp_path / "router")


def test_search_may_ask_another_policy_than_select(tmp_path):
    specs = [ArmSpec("bm25"), ArmSpec("bm25", "paragraph")]
    routed(tmp_path, specs)
    names = tuple(spec.identity for spec in specs)
    policies = [StaticPolicy(arm, names, arm) for arm in names]
    write_router(tmp_path / "router", RouterRecord(names, Defaults(*names)), policies)
    router = Router.load(tmp_path / "router")
    assert router.select("Elbe").arm == "bm25"
    assert router.search("Elbe").choice.arm == "bm25@paragraph"
    assert router.search("Elbe", policy="bm25").choice.arm == "bm25"
    named = Router.load(tmp_path / "router", policy="bm25")
    assert named.search("Elbe").choice.policy == named.select("Elbe").policy == "bm25"
    assert "select asks bm25, search asks bm25@paragraph" in repr(router)


def check_same_as_with_the_corpus(router, specs, index_root):
    for spec in specs:
        found = router.search("Welche Schiffe fahren auf der Elbe?", k=2, arms=[spec.identity])
        wanted = open_arm(spec, CORPUS, index_root).rank(["Welche Schiffe fahren auf der Elbe?"], 2)
        assert found.ranking == wanted[0]
        assert found.ranking.doc_ids[0] == "elbe"


def test_sparse_arms_and_their_fusion(tmp_path):
    specs = [
        ArmSpec("bm25"),
        ArmSpec("bm25", "paragraph"),
        ArmSpec("fusion", options=FUSED),
    ]
    router = routed(tmp_path, specs)
    check_same_as_with_the_corpus(router, specs, tmp_path / "index" / CORPUS.name)


def test_options_of_the_labels_are_those_of_the_index(tmp_path):
    router = routed(tmp_path, [ArmSpec("bm25", options={"k1": 0.9})])
    assert router.search("Elbe").ranking.doc_ids == ("elbe",)
    build_arm(ArmSpec("bm25", options={"k1": 2.0}), CORPUS, tmp_path / "index" / CORPUS.name)
    with pytest.raises(ArmIndexError, match="made from something else"):
        Router.load(tmp_path / "router").search("Elbe")


@pytest.mark.slow
def test_dense_late_and_reranking_arms(tmp_path):
    specs = [ArmSpec(name) for name in ("text_dense", "text_late", "text_rerank")]
    specs.append(ArmSpec("text_dense", "paragraph"))
    router = routed(tmp_path, specs)
    check_same_as_with_the_corpus(router, specs, tmp_path / "index" / CORPUS.name)
