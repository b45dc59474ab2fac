"""kNN, Arabzadeh et al., multi-label, bandit and ensembles: formulas, plans, and files."""

import json

import numpy as np
import pytest

from arms.errors import RouterError
from router.artifact import (
    Defaults,
    RouterRecord,
    add_policy,
    policy_folder,
    read_router,
    write_router,
)
from router.frozen_queries import FrozenQueries
from router.policies import load_policy
from router.policies.arabzadeh import ArabzadehPolicy, escalation_threshold
from router.policies.bandit import BanditPolicy
from router.policies.encoder import EncoderPolicy, LinearHead
from router.policies.ensemble import EnsemblePolicy, first_sure, majority
from router.policies.knn import KnnPolicy, nearest
from router.policies.multi_label import MultiLabelPolicy
from router.policies.over_vectors import softmax_over
from router.policies.static import StaticPolicy
from router.policy import Plan, PolicyInputs
from router.query_encoder import QueryEncoder
from tests.router.tiny_encoders import DIM, save_tiny_bert

ARMS = ("bm25", "text_dense", "text_rerank", "fusion")
QUERIES = ["what was the operating margin", "who painted the ceiling", "", "北京 😀"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return QueryEncoder(str(save_tiny_bert(tmp_path_factory.mktemp("bert"))))


def head(seed=0, arms=4):
    random = np.random.default_rng(seed)
    return LinearHead(
        random.normal(size=(arms, DIM)).astype(np.float32),
        random.normal(size=arms).astype(np.float32),
    )


def knn_policy(queries, k=3, tau=0.1, count=40):
    random = np.random.default_rng(1)
    competes = random.random((count, len(ARMS))) > 0.2
    competes[:, 0] = True
    return KnnPolicy(
        "knn",
        ARMS,
        queries,
        random.normal(size=(count, DIM)).astype(np.float32),
        np.where(competes, random.random((count, len(ARMS))), np.nan),
        np.where(competes, 1 + random.random((count, len(ARMS))), np.nan),
        competes,
        k,
        tau,
    )


def every_policy(encoder):
    queries = FrozenQueries.of(encoder)
    knn = knn_policy(queries)
    router = EncoderPolicy("router", ARMS, {0.0: head(2), 0.5: head(3)}, query_encoder=encoder)
    return [
        knn,
        router,
        ArabzadehPolicy(
            "arabzadeh", ARMS, queries, head(), "bm25", np.array([0.1, 0.4, 0.2]), "RR@5 = 1"
        ),
        MultiLabelPolicy(
            "multi_label",
            ARMS,
            queries,
            {0.0: head(), 0.5: head(4)},
            0.3,
            {"fusion": ("bm25", "text_dense")},
            only_fusions=False,
        ),
        BanditPolicy(
            "bandit",
            ARMS,
            queries,
            head(5),
            np.array([1.0, 2.0, 40.0, 0.0]),
            np.array([9, 4, 3, 0]),
            0.1,
        ),
        EnsemblePolicy("ensemble_majority", [router, knn], "majority"),
        EnsemblePolicy("ensemble_confidence", [knn, router], "confidence", {0.0: 0.4, 1.0: 0.2}),
    ]


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_a_saved_policy_decides_as_the_fitted_one(encoder, tmp_path, lam):
    fitted = every_policy(encoder)
    record = RouterRecord(arms=ARMS, defaults=Defaults("router"), tau=0.1, lams=(0.0, 0.5))
    write_router(tmp_path / "router", record, fitted)
    competes = np.ones((len(QUERIES), len(ARMS)), dtype=bool)
    competes[1, 0] = competes[2, 1:] = False
    for policy in fitted:
        loaded = load_policy(policy_folder(tmp_path / "router", policy.name))
        assert loaded.arms == policy.arms and loaded.lams == policy.lams
        assert loaded.frozen_encoder() == policy.frozen_encoder() == encoder.resolved.revision
        for mask in (None, competes):
            ours, theirs = (
                one.decide(QUERIES, lam, PolicyInputs(competes=mask)) for one in (policy, loaded)
            )
            assert ours.plans == theirs.plans and ours.reasons == theirs.reasons
            np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
            np.testing.assert_allclose(ours.probabilities.sum(axis=1), 1.0)
            if mask is not None:
                assert (ours.probabilities[~mask] == 0).all()
                for plan, row in zip(ours.plans, mask, strict=True):
                    assert all(row[ARMS.index(arm)] for arm in plan.arms)
        assert loaded.decide([], lam).plans == ()
        alone = [policy.decide([query], lam).plans[0] for query in QUERIES]
        assert alone == list(policy.decide(QUERIES, lam).plans)


def test_given_vectors_are_used_instead_of_the_encoder(encoder):
    vectors = encoder.embed(QUERIES)
    for policy in every_policy(encoder):
        again = policy.decide(QUERIES, 0.5, PolicyInputs(embeddings=vectors))
        assert again.plans == policy.decide(QUERIES, 0.5).plans
        other = np.random.default_rng(0).normal(size=vectors.shape).astype(np.float32)
        moved = policy.probabilities(QUERIES, 0.5, PolicyInputs(embeddings=other))
        assert (moved != policy.probabilities(QUERIES, 0.5)).any()


# kNN


def test_the_nearest_are_the_greatest_and_ties_go_to_the_earlier():
    similarity = np.array([[0.1, 0.9, 0.5, 0.5, 0.5], [1, 1, 1, 1, 1]], dtype=np.float32)
    assert nearest(similarity, 3).tolist() == [[1, 2, 3], [0, 1, 2]]
    assert nearest(similarity, 9).tolist() == [[0, 1, 2, 3, 4]] * 2
    assert nearest(similarity[:0], 3).shape == (0, 3)


def test_nearest_agrees_with_a_stable_sort():
    similarity = np.random.default_rng(0).integers(0, 6, (50, 30)).astype(np.float32)
    for k in (1, 7, 30):
        order = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(nearest(similarity, k), np.sort(order, axis=1))


def test_knn_by_hand(encoder):
    """Two of three neighbours count; arm b is missing at one of them, arm c at both."""
    policy = KnnPolicy(
        "knn",
        ("a", "b", "c"),
        FrozenQueries.of(encoder),
        np.array([[2.0, 0.0], [1.0, 1.0], [-1.0, 0.0]]),
        np.array([[0.2, 0.9, 9.0], [0.6, 9.0, 9.0], [0.0, 0.0, 1.0]]),
        np.array([[1.0, 3.0, 9.0], [5.0, 9.0, 9.0], [1.0, 1.0, 2.0]]),
        np.array([[True, True, False], [True, False, False], [True, True, True]]),
        k=2,
        tau=0.5,
    )
    query = np.array([[3.0, 0.5]], dtype=np.float32)
    quality, share = policy.outcomes(query)
    np.testing.assert_allclose(quality, [[0.4, 0.9, np.nan]], rtol=1e-6)
    np.testing.assert_allclose(share, [[(0.25 + 1.0) / 2, 0.75, np.nan]], rtol=1e-6)
    # lam = 0.5: a = 0.5·0.4 + 0.5·(1 − 0.625) = 0.3875, b = 0.45 + 0.125 = 0.575.
    rows, _ = policy.judge(query, 0.5, None)
    odds = np.exp((0.575 - 0.3875) / 0.5)
    np.testing.assert_allclose(rows, [[1 / (1 + odds), odds / (1 + odds), 0.0]], rtol=1e-6)
    decided = policy.decide(["any"], 0.5, PolicyInputs(embeddings=query))
    assert decided.plans == (Plan(("b",)),)
    np.testing.assert_allclose(decided.predicted_quality, [0.9], rtol=1e-6)
    known = PolicyInputs(embeddings=query, competes=np.array([[False, False, True]]))
    only_c = policy.decide(["any"], 0.5, known)
    assert only_c.plans == (Plan(("c",)),) and np.isnan(only_c.predicted_quality[0])


def test_knn_refuses_what_does_not_fit(encoder):
    with pytest.raises(RouterError, match="k from 1 to 40"):
        knn_policy(FrozenQueries.of(encoder), k=41)


def test_softmax_of_unknown_arms():
    rows = softmax_over(np.array([[0.0, -np.inf], [-np.inf, -np.inf], [1e9, 0.0]]), 0.1)
    np.testing.assert_allclose(rows, [[1, 0], [0.5, 0.5], [1, 0]])


# Arabzadeh et al.


def test_the_threshold_lets_the_budget_escalate():
    held_out = np.arange(100) / 100
    for lam in (0.1, 0.3, 0.5, 0.9):
        escalated = (held_out < escalation_threshold(held_out, lam)).mean()
        assert abs(escalated - (1 - lam)) < 0.011
    assert escalation_threshold(held_out, 0.0) == np.inf
    assert escalation_threshold(held_out, 1.0) == -np.inf


def test_staying_and_escalating(encoder):
    logits = np.log([[0.5, 0.2, 0.3], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]])
    policy = ArabzadehPolicy(
        "arabzadeh",
        ("bm25", "b", "c"),
        FrozenQueries.of(encoder),
        LinearHead(np.eye(3, dtype=np.float32), np.zeros(3, np.float32)),
        "bm25",
        np.array([0.0, 0.2, 0.4, 0.6]),
        "RR@5 = 1",
    )

    def arms(lam, competes=None):
        known = PolicyInputs(embeddings=logits.astype(np.float32), competes=competes)
        decided = policy.decide(["x"] * 3, lam, known)
        return [plan.answering_arm for plan in decided.plans], decided.reasons

    assert arms(1.0)[0] == ["bm25", "bm25", "bm25"]
    assert arms(0.0)[0] == ["c", "b", "c"]
    # lam = 0.5: the median of what was held out is 0.3, so 0.5 stays, and so does 0.3.
    chosen, reasons = arms(0.5)
    assert chosen == ["bm25", "b", "bm25"]
    assert reasons[:2] == (None, None) and reasons[2].startswith("kept on bm25")
    without = np.array([[False, True, True], [True, False, False], [True, True, False]])
    assert arms(1.0, without)[0] == ["c", "bm25", "bm25"]
    assert arms(0.0, without)[0] == ["c", "bm25", "b"]


def test_arabzadeh_refuses_an_arm_that_is_not_there(encoder):
    with pytest.raises(RouterError, match="cheapest arm among"):
        ArabzadehPolicy("a", ARMS, FrozenQueries.of(encoder), head(), "x", np.ones(1), "")


# multi-label


def multi_label(encoder, only_fusions, fusions):
    return MultiLabelPolicy(
        "multi_label",
        ("a", "b", "c", "ab"),
        FrozenQueries.of(encoder),
        {0.0: LinearHead(np.eye(4, dtype=np.float32), np.zeros(4, np.float32))},
        0.8,
        fusions,
        only_fusions,
    )


@pytest.mark.parametrize(
    ("only_fusions", "fusions", "wanted"),
    [
        # σ(2) = 0.88 and σ(3) = 0.95 are above the threshold of 0.8, σ(1) = 0.73 isn't.
        (False, {}, ["b+a", "a", "c", "b+a+c", "b+a+ab"]),
        (False, {"ab": ("a", "b")}, ["ab", "a", "c", "b+a+c", "ab"]),
        (True, {"ab": ("a", "b")}, ["ab", "a", "c", "ab", "ab"]),
        (True, {}, ["b", "a", "c", "b", "b"]),
    ],
)
def test_arms_above_the_threshold_are_fused(encoder, only_fusions, fusions, wanted):
    logits = np.array(
        [[2, 3, 1, -1], [2, 1, 1, -1], [-2, -3, -1, -9], [2.5, 3, 2, -1], [2.5, 3, 1, 2]],
        dtype=np.float32,
    )
    policy = multi_label(encoder, only_fusions, fusions)
    decided = policy.decide(["x"] * 5, 0.0, PolicyInputs(embeddings=logits))
    assert [str(plan) for plan in decided.plans] == wanted
    assert [plan.combine for plan in decided.plans] == [
        "fuse" if "+" in plan else "single" for plan in wanted
    ]
    masked = np.array([[True, True, True, False]] * 5)
    without = policy.decide(["x"] * 5, 0.0, PolicyInputs(embeddings=logits, competes=masked))
    assert all("ab" not in plan.arms for plan in without.plans)


# bandit


def test_bandit_rewards_by_hand(encoder):
    policy = BanditPolicy(
        "bandit",
        ("a", "b", "c"),
        FrozenQueries.of(encoder),
        LinearHead(np.array([[1.0], [0.0], [0.0]], np.float32), np.array([0, 0.5, 9], np.float32)),
        np.array([3.0, 1.0, 0.0]),
        np.array([5, 5, 0]),
        0.1,
    )
    vectors = np.array([[0.9], [-4.0]], np.float32)
    quality = policy.judge(vectors, 0.0, None)[1]
    np.testing.assert_allclose(quality, [[0.9, 0.5, 1.0], [0.0, 0.5, 1.0]], rtol=1e-6)
    chosen = [
        policy.decide(["x"] * 2, lam, PolicyInputs(embeddings=vectors)).plans[0].answering_arm
        for lam in (0.0, 0.4, 0.5)
    ]
    # lam = 0.4: a = 0.54 + 0.4·0.25 = 0.64, b = 0.3 + 0.4·0.75 = 0.6; at 0.5 0.575 against 0.625.
    assert chosen == ["a", "a", "b"]


def test_bandit_needs_an_outcome(encoder):
    with pytest.raises(RouterError, match="at least one logged outcome"):
        BanditPolicy(
            "b", ARMS, FrozenQueries.of(encoder), head(), np.ones(4), np.zeros(4, np.int64), 0.1
        )


# ensembles


def test_majority_and_its_ties():
    one, two, three = ([0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.1, 0.2, 0.7])
    rows = [np.array([one, one]), np.array([two, one]), np.array([three, two])]
    voted = majority(rows)
    # The first query has a vote each: means are 0.233, 0.367 and 0.4.
    assert voted.argmax(axis=1).tolist() == [2, 0]
    np.testing.assert_allclose(voted.sum(axis=1), 1.0)
    np.testing.assert_allclose(voted[1, 0], (2 + 0.5 * (0.5 + 0.5 + 0.1) / 3) / 3.5)


def test_the_first_that_is_sure_answers():
    rows = [np.array([[0.6, 0.4], [0.5, 0.5]]), np.array([[0.0, 1.0], [0.9, 0.1]])]
    np.testing.assert_array_equal(first_sure(rows, 0.5), [[0.6, 0.4], [0.9, 0.1]])
    np.testing.assert_array_equal(first_sure(rows, 0.95), rows[1])
    three = [*rows, np.array([[0.2, 0.8], [0.2, 0.8]])]
    np.testing.assert_array_equal(first_sure(three, 0.95), [[0.0, 1.0], [0.2, 0.8]])


def test_members_vote_for_arms_that_compete(encoder):
    arms = ("a", "b", "c")
    statics = [StaticPolicy(f"static:{number}", arms, arm) for number, arm in enumerate("aac")]
    ensemble = EnsemblePolicy("majority", statics, "majority")
    assert ensemble.decide(["x"], 0.1).plans == (Plan(("a",)),)
    known = PolicyInputs(
        competes=np.array([[False, True, True]]), preference=np.array([0.0, 0.1, 0.9])
    )
    assert ensemble.decide(["x"], 0.1, known).plans == (Plan(("c",)),)


def test_an_ensemble_refuses_members_that_do_not_fit(encoder):
    router = EncoderPolicy("router", ARMS, {0.1: head()}, query_encoder=encoder)
    other = EncoderPolicy("other", ARMS, {0.2: head()}, query_encoder=encoder)
    with pytest.raises(RouterError, match="at least two members"):
        EnsemblePolicy("e", [router], "majority")
    with pytest.raises(RouterError, match="without a common lam"):
        EnsemblePolicy("e", [router, other], "majority")
    with pytest.raises(RouterError, match="needs a threshold"):
        EnsemblePolicy("e", [router, knn_policy(FrozenQueries.of(encoder))], "confidence")


# files


def test_a_policy_joins_a_finished_router(encoder, tmp_path):
    policies = every_policy(encoder)
    record = RouterRecord(arms=ARMS, defaults=Defaults("router"), tau=0.1, lams=(0.0, 0.5))
    write_router(tmp_path / "router", record, policies[:2])
    add_policy(tmp_path / "router", policies[4])
    assert read_router(tmp_path / "router").policies == ("knn", "router", "bandit")
    add_policy(tmp_path / "router", policies[4])  # again: replaced
    policies[4].name = "knn"
    with pytest.raises(RouterError, match="has a policy 'knn' of kind 'knn'"):
        add_policy(tmp_path / "router", policies[4])


def test_a_damaged_policy_is_refused(encoder, tmp_path):
    tmp_path.joinpath("knn").mkdir()
    knn_policy(FrozenQueries.of(encoder)).save(tmp_path / "knn")
    content = json.loads((tmp_path / "knn/policy.json").read_text())
    (tmp_path / "knn/policy.json").write_text(json.dumps(content | {"surprise": 1}))
    with pytest.raises(RouterError, match="surprise"):
        load_policy(tmp_path / "knn")
    (tmp_path / "knn/policy.json").write_text(json.dumps(content | {"encoder_revision": "other"}))
    with pytest.raises(RouterError, match="trained with revision other"):
        load_policy(tmp_path / "knn")
