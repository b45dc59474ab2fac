"""A search embeds its query once where the policy and the arms read the same encoder."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from arms.architectures.dense import DenseArm
from arms.arm import ArmSpec
from arms.catalogue import build_arm
from arms.contract_corpus import QUERIES, contract_corpus
from arms.encoders.query_backend import TORCH
from arms.encoders.query_encoding import text_encoding
from arms.encoders.resolve import resolve
from arms.encoders.text_encoder import TextEncoder
from router import Router
from router.artifact import Defaults, RouterRecord, write_router
from router.frozen_queries import FrozenQueries
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policies.over_vectors import VectorPolicy
from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS, Decisions, Plan
from router.query_encoder import QueryEncoder

OPTIONS = {"fusion": {"arms": ["bm25", "text_dense"]}}
ARMS = ("bm25", "text_dense", "text_rerank", "fusion")
LAM_OF = dict(zip(ARMS, (0.0, 0.1, 0.2, 0.3), strict=True))
"""λ at which each arm is chosen."""
DIM = 384


def heads(dim=DIM):
    wanted = {lam: np.eye(len(ARMS), dtype=np.float32)[ARMS.index(arm)] * 9
              for arm, lam in LAM_OF.items()}  # fmt: skip
    return {lam: LinearHead(np.zeros((len(ARMS), dim), np.float32), row)
            for lam, row in wanted.items()}  # fmt: skip


class Looking(VectorPolicy):
    """Runs text_dense first, answers with text_rerank, and notes the vectors it was given."""

    kind, probes, probe_depth = "looking", ("text_dense",), 3

    def __init__(self):
        self.name, self.arms, self.lams = "looking", ARMS, None
        self.queries = FrozenQueries(resolve())

    def judge(self, vectors, lam, competes):
        raise NotImplementedError

    def decide(self, queries, lam, known=NO_INPUTS):
        self.seen = known
        plan = Plan(("text_dense", "text_rerank"), "cascade")
        return Decisions((plan,) * len(queries), np.tile([0.0, 0, 1, 0], (len(queries), 1)))

    def save(self, folder):
        raise NotImplementedError

    @classmethod
    def load(cls, folder):
        raise NotImplementedError


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder: an index of one dataset, and a router over the offline encoder."""
    root = tmp_path_factory.mktemp("run")
    for arm in ARMS:
        spec = ArmSpec(arm, options=OPTIONS.get(arm, {}))
        build_arm(spec, contract_corpus(), root / "index" / "contract")
    record = RouterRecord(ARMS, Defaults("router"), arm_options=OPTIONS)
    policies = [EncoderPolicy("router", ARMS, heads()), StaticPolicy("fixed", ARMS, "text_dense")]
    write_router(root / "router", record, policies)
    return root


@pytest.fixture
def router(run):
    router = Router.load(run / "router")
    router._policies["looking"] = Looking()
    return router


@pytest.fixture
def embedded(monkeypatch):
    """Name of the class that embeds → queries that it was asked to embed."""
    asked = {"TextEncoder": [], "QueryEncoder": []}
    for owner in (TextEncoder, QueryEncoder):

        def counting(self, texts, *args, made=owner.embed, name=owner.__name__, **kwargs):
            asked[name].extend(texts)
            return made(self, texts, *args, **kwargs)

        monkeypatch.setattr(owner, "embed", counting)
    monkeypatch.setattr(TextEncoder, "backend", lambda *given: TORCH)  # opening embeds nothing
    return asked


def same_ranking(one, other):
    assert one.doc_ids == other.doc_ids
    np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5)


@pytest.mark.parametrize("arm", ARMS[1:])
def test_the_arm_takes_the_routers_vector(router, embedded, arm, monkeypatch):
    for query in QUERIES[:3]:
        found = router.search(query, lam=LAM_OF[arm], k=5)
        assert (found.choice.arm, found.reused_vectors) == (arm, 1)
    assert embedded == {"TextEncoder": [], "QueryEncoder": list(QUERIES[:3])}
    monkeypatch.setattr(DenseArm, "with_query_vectors", lambda self, given: self)
    alone = router.search(QUERIES[2], lam=LAM_OF[arm], k=5)
    assert alone.reused_vectors == 0 and embedded["TextEncoder"] == [QUERIES[2]]
    same_ranking(found.ranking, alone.ranking)


def test_probe_and_answer_take_the_vector_that_the_policy_reads(router, embedded, monkeypatch):
    found = router.search(QUERIES[0], k=5, policy="looking")
    assert found.reused_vectors == 2  # the probe, and the dense part of the arm that answers
    assert embedded == {"TextEncoder": [], "QueryEncoder": [QUERIES[0]]}
    seen = router._policies["looking"].seen
    assert seen.embeddings.shape == (1, DIM) and len(seen.probed["text_dense"][0].doc_ids) == 3
    monkeypatch.setattr(DenseArm, "with_query_vectors", lambda self, given: self)
    same_ranking(found.ranking, router.search(QUERIES[0], k=5, policy="looking").ranking)


def test_selecting_by_a_policy_that_probes_embeds_a_batch_once(router, embedded):
    choices = router.select_many(list(QUERIES[:3]), policy="looking")
    assert [choice.arm for choice in choices] == ["text_rerank"] * 3
    assert embedded == {"TextEncoder": [], "QueryEncoder": list(QUERIES[:3])}


def test_arms_without_vectors_and_policies_without_take_nothing(router, embedded):
    assert router.search(QUERIES[0], lam=LAM_OF["bm25"]).reused_vectors == 0
    assert embedded["TextEncoder"] == []
    assert router.search(QUERIES[0], policy="fixed").reused_vectors == 0
    assert embedded == {"TextEncoder": [QUERIES[0]], "QueryEncoder": [QUERIES[0]]}


def test_a_query_that_the_router_cuts_is_encoded_again(router, embedded):
    words = "tide " * 200  # the router cuts at 128 tokens, the arm at 256
    found = router.search(words.strip(), lam=LAM_OF["text_dense"])
    assert found.reused_vectors == 0 and len(embedded["TextEncoder"]) == 1


@pytest.mark.parametrize("difference", ["another encoder", "bfloat16", "a prompt"])
def test_another_encoding_is_not_shared(run, embedded, difference, tiny_bert, tmp_path):
    record = RouterRecord(ARMS, Defaults("router"), arm_options=OPTIONS)
    if difference == "another encoder":
        policy = EncoderPolicy("router", ARMS, heads(tiny_dim(tiny_bert)), str(tiny_bert))
    elif difference == "bfloat16":
        policy = EncoderPolicy("router", ARMS, heads(), dtype="bfloat16")
    else:
        policy = EncoderPolicy("router", ARMS, heads())
        options = {**OPTIONS, "text_dense": {"query_prompt": "query: "}}
        record = replace(record, arm_options=options)
    write_router(tmp_path / "router", record, [policy])
    router = Router.load(tmp_path / "router", index=run / "index")
    found = router.search(QUERIES[0], lam=LAM_OF["text_dense"])
    assert (found.choice.arm, found.reused_vectors) == ("text_dense", 0)
    assert embedded["TextEncoder"] == [QUERIES[0]]


def tiny_dim(folder):
    return QueryEncoder(str(folder)).dim


def test_the_two_say_the_same_of_the_offline_encoder():
    encoder = QueryEncoder()
    assert encoder.encoding == replace(text_encoding(resolve()), max_tokens=128)
    assert FrozenQueries.of(encoder).same_as(encoder)
    assert not FrozenQueries(encoder.resolved, max_tokens=64).same_as(encoder)


def test_an_index_built_elsewhere_serves_the_same(run, tmp_path, embedded):
    shutil.copytree(run, tmp_path / "moved")
    router = Router.load(tmp_path / "moved" / "router")
    assert router.search(QUERIES[0], lam=LAM_OF["text_dense"]).reused_vectors == 1
    assert embedded["TextEncoder"] == []
