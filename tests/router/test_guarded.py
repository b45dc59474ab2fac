"""Queries unlike the training queries go to the best static arm, with the reason."""

import numpy as np
import pytest

from arms.errors import RouterError
from router import Router
from router.artifact import Defaults, RouterRecord, policy_folder, write_router
from router.domain import Domain, distance_threshold, unit_rows
from router.policies import load_policy
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policies.guarded import GuardedPolicy
from router.policies.static import StaticPolicy
from router.policy import NO_INPUTS, Decisions, Plan, PolicyInputs
from tests.router.tiny_encoders import DIM

ARMS = ("bm25", "text_dense", "text_rerank")
QUALITY, SHARE = np.array([0.5, 0.6, 0.7]), np.array([0.05, 0.25, 0.7])
"""Reward at λ = 0: 0.5, 0.6, 0.7; at 0.5: 0.725, 0.675, 0.5."""


def domain(vectors, threshold=0.5):
    return Domain(unit_rows(np.asarray(vectors, np.float32)).astype(np.float16), threshold, 0.05)


class Inner(StaticPolicy):
    """Always text_dense; counts how often it embeds."""

    embedded = 0

    def frozen_encoder(self):
        return "rev"

    def embed(self, queries, lam):
        self.embedded += 1
        return np.array([[1, 0] if query == "near" else [0, 1] for query in queries], np.float32)


def guarded(**inner):
    policy = Inner("router", ARMS, "text_dense")
    for name, value in inner.items():
        setattr(policy, name, value)
    return GuardedPolicy("router", policy, domain([[1, 0]]), QUALITY, SHARE)


def test_distance_to_the_nearest_training_query_by_hand():
    queries = np.array([[5, 0], [1, 1], [0, 3], [-1, 0], [0, 0]], np.float32)
    assert domain([[2, 0], [3, 4]]).distances(queries) == pytest.approx(
        [0.0, 1 - 7 / (5 * 2**0.5), 0.2, 1.6, 1.0], abs=1e-3
    )
    many = np.tile(queries, (500, 1))
    assert domain([[2, 0], [3, 4]]).distances(many) == pytest.approx(
        np.tile(domain([[2, 0], [3, 4]]).distances(queries), 500), abs=1e-6
    )
    assert domain([[1, 0]]).distances(queries[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("rate", "threshold"), [(0.0, 2.0), (0.05, 1.9), (0.1, 1.8), (0.07, 1.9), (0.95, 0.1)]
)
def test_the_threshold_lets_the_stated_share_through(rate, threshold):
    distances = np.random.default_rng(0).permutation(np.arange(1, 21) / 10)
    found = distance_threshold(distances, rate)
    assert found == pytest.approx(threshold)
    assert (distances > found).mean() <= rate


@pytest.mark.parametrize(("lam", "arm"), [(0.0, "text_rerank"), (0.5, "bm25")])
def test_a_foreign_query_gets_the_best_static_arm_at_its_lam(lam, arm):
    policy = guarded()
    decided = policy.decide(["near", "far"], lam)
    assert decided.plans == (Plan(("text_dense",)), Plan((arm,)))
    assert decided.reasons == (
        None, f"out of domain: distance 1.00 over 0.50; fell back on {arm}",
    )  # fmt: skip
    assert decided.probabilities[1, ARMS.index(arm)] == 1.0
    assert policy.inner.embedded == 1
    policy.decide(["far"], lam, PolicyInputs(embeddings=np.array([[0, 1]], np.float32)))
    assert policy.inner.embedded == 1  # the caller's vectors serve both


def test_the_fallback_is_among_the_allowed_arms():
    known = PolicyInputs(competes=np.array([[True, True, False]]))
    assert guarded().decide(["far"], 0.0, known).plans == (Plan(("text_dense",)),)


def test_nothing_foreign_and_nothing_at_all():
    assert guarded().decide(["near"], 0.0).reasons is None
    assert guarded().decide([], 0.0).plans == ()
    assert guarded().probabilities(["far"], 0.0).tolist() == [[0.0, 0.0, 1.0]]


def test_probes_were_run_and_stay_in_the_plan():
    class ProbeResults(Inner):
        probes = ("bm25", "text_dense")

        def decide(self, queries, lam, known=NO_INPUTS):
            plans = (Plan(("bm25", "text_dense", "text_rerank"), "cascade"),) * len(queries)
            rows = np.tile([0.0, 0.0, 1.0], (len(queries), 1))
            return Decisions(plans, rows, np.full(len(queries), 0.9))

    inner = ProbeResults("router", ARMS, "text_dense")
    policy = GuardedPolicy("router", inner, domain([[1, 0]]), QUALITY, SHARE)
    assert policy.probes == inner.probes
    decided = policy.decide(["near", "far"], 0.5)
    assert decided.plans[1] == Plan(("text_dense", "bm25"), "cascade")
    assert decided.predicted_quality.tolist() == [0.9, 0.5]


def test_a_policy_without_query_vectors_cannot_be_guarded():
    with pytest.raises(RouterError, match="'p' reads no query vectors that tell"):
        GuardedPolicy("p", StaticPolicy("p", ARMS, "bm25"), domain([[1, 0]]), QUALITY, SHARE)


def test_round_trip_and_what_the_router_says(tiny_bert, tmp_path):
    heads = {0.0: LinearHead(np.zeros((3, DIM), np.float32), np.array([0, 1, 0], np.float32))}
    inner = EncoderPolicy("router", ARMS, heads, str(tiny_bert))
    known = inner.embed(["operating margin"], 0.0)
    policy = GuardedPolicy("router", inner, domain(known, 1e-3), QUALITY, SHARE)
    write_router(tmp_path / "router", RouterRecord(ARMS, Defaults("router")), [policy])
    router = Router.load(tmp_path / "router")
    choice = router.select("operating margin", lam=0)
    assert (choice.arm, choice.reason) == ("text_dense", None)
    assert choice.policy_kind == "guarded encoder"
    choice = router.select("who ?", lam=0)
    assert choice.arm == "text_rerank"
    assert choice.reason.startswith("out of domain: distance ")
    folder = policy_folder(tmp_path / "router", "router")
    (folder / "inner" / "policy.json").unlink()
    with pytest.raises(RouterError, match=r"policy\.json"):
        load_policy(folder)
