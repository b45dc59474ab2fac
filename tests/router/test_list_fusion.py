"""Fusing lists by hand: ranks, weights, a document prior; the policy around it, and its files."""

import json
import time

import numpy as np
import pytest

from arms.errors import RouterError
from arms.pipelines.fusion import reciprocal_rank_fusion
from arms.records import Ranking
from router.arm_sets import ArmSet
from router.list_fusion import DocumentPrior, ListFusion, list_values, prior_values
from router.policies import load_policy
from router.policies.list_fusion import ListFusionPolicy
from router.policy import Expected, Plan, PolicyInputs
from router.probe_features import key_of

ARMS = ("a", "b", "c")
NO_INPUTS = Ranking((), ())


def ranking(**scores):
    """Document → score, in order."""
    return Ranking(tuple(scores), tuple(scores.values()))


A = ranking(x=4.0, y=3.0, z=2.0)
B = ranking(w=10.0, y=5.0)


def prior_of(**counts):
    keys = sorted((key_of(name), count) for name, count in counts.items())
    return DocumentPrior(
        np.array([key for key, _ in keys], dtype=np.int64),
        np.array([count for _, count in keys], dtype=np.int64),
    )


def fusion(*weights, method="top_score", arms=("a", "b"), **of_datasets):
    own = {name: np.array(one, dtype=float) for name, one in of_datasets.items()}
    return ListFusion(tuple(arms), method, np.array(weights, dtype=float), own)


# By hand


def test_reciprocal_ranks_by_hand():
    fused = fusion(1, 1, method="reciprocal_ranks").fuse([A, B])
    assert fused.doc_ids == ("y", "w", "x", "z")  # w and x are both first of a list: by name
    assert fused.scores == pytest.approx((2 / 62, 1 / 61, 1 / 61, 1 / 63))
    assert fused.doc_ids == reciprocal_rank_fusion([A, B], 10).doc_ids


def test_scores_over_the_top_score_by_hand():
    # a: x 1, y .75, z .5, else .5; b: w 1, y .5, else .5.
    fused = fusion(0.6, 0.4).fuse([A, B])
    assert dict(zip(fused.doc_ids, fused.scores, strict=True)) == pytest.approx(
        {"x": 0.8, "w": 0.7, "y": 0.65, "z": 0.5}
    )
    assert fused.doc_ids == ("x", "w", "y", "z")


def test_min_max_by_hand():
    # a: x 1, y .5, z 0, else 0; b: w 1, y 0, else 0.
    fused = fusion(0.5, 0.5, method="min_max").fuse([A, B])
    assert fused.doc_ids == ("w", "x", "y", "z")
    assert fused.scores == pytest.approx((0.5, 0.5, 0.25, 0.0))


def test_lists_that_are_empty_or_absent_say_nothing():
    for method in ("reciprocal_ranks", "top_score", "min_max", "z"):
        assert fusion(1, 1, method=method).fuse([NO_INPUTS, NO_INPUTS]) == NO_INPUTS
        assert fusion(1, 1, method=method).fuse([A, NO_INPUTS]).doc_ids == ("x", "y", "z")
    values, absent = list_values(np.array([[np.nan], [5.0]]), "top_score")
    assert np.isnan(values[0, 0]) and values[1, 0] == 1.0 and absent.tolist() == [0.0, 0.0]


def test_a_dataset_may_have_weights_of_its_own_and_others_fall_back():
    both = fusion(1, 0, one=(0, 1))
    assert both.fuse([A, B], "one").doc_ids[0] == "w"
    for unseen in ("another", None):
        assert both.fuse([A, B], unseen).doc_ids[0] == "x"


def test_a_prior_lifts_documents_that_were_relevant_before():
    assert prior_values(np.array([0, 1, 3])).tolist() == [0.0, 0.5, 0.75]
    prior = prior_of(z=3, elsewhere=9)
    assert prior.of(["x", "z"]).tolist() == [0.0, 0.75]
    assert prior_of().of(["x"]).tolist() == [0.0]
    with_prior = ListFusion(("a", "b"), "top_score", np.array([0.6, 0.4, 0.5]))
    fused = with_prior.fuse([A, B], None, prior)
    assert fused.doc_ids == ("z", "x", "w", "y")
    assert fused.scores[0] == pytest.approx(0.5 + 0.5 * 0.75)


# The policy


def alone(quality=(0.5, 0.6, 0.4), share=(0.1, 0.3, 0.6)):
    return [ArmSet((arm,), q, s) for arm, q, s in zip(ARMS, quality, share, strict=True)]


def both_sets(one=None):
    return [
        ArmSet(("a", "b"), 0.8, 0.4, one or fusion(0.6, 0.4), latency_ms=12.0, queries=7),
        ArmSet(("a", "b", "c"), 0.9, 0.95, fusion(1, 1, 1, arms=ARMS)),
    ]


def policy_of(*arm_sets, prior=None):
    return ListFusionPolicy("tuned_fusion", ARMS, [*alone(), *(arm_sets or both_sets())], prior)


FOUND = {"a": [A, ranking(p=1.0)], "b": [B, ranking(q=2.0, p=1.0)], "c": [NO_INPUTS, NO_INPUTS]}
QUERIES = ["one", "two"]


def known(**more):
    return PolicyInputs(**{"probed": FOUND, "datasets": ["d", "d"], **more})


def test_lam_takes_a_set_and_near_1_the_cheap_arm():
    policy = policy_of()
    assert [policy.arm_sets[policy.arm_set_at(lam)].arms for lam in (0.0, 0.3, 1.0)] == [
        ("a", "b", "c"),
        ("a", "b"),
        ("a",),
    ]
    assert policy.probes == ARMS
    assert [policy.probes_at(lam) for lam in (0.3, 1.0)] == [("a", "b"), ()]
    assert not policy.query_dependent and policy.embed(QUERIES, 0.3) is None
    decided = policy.decide(QUERIES, 1.0, known(probed=None))
    assert decided.plans == (Plan(("a",)),) * 2 and decided.rankings is None


def test_a_fused_plan_names_the_preferred_arm_first_and_has_its_own_ranking():
    policy = policy_of()
    decided = policy.decide(QUERIES, 0.3, known())
    assert decided.plans == (Plan(("b", "a"), "fuse"),) * 2  # b is better alone
    assert str(decided.plans[0]) == "b+a" and decided.plans[0].answering_arm == "b"
    # p: .6·1 + .4·.5; q: a list of one document says nothing of others, .4·1.
    assert [one.doc_ids for one in decided.rankings] == [("x", "w", "y", "z"), ("p", "q")]
    np.testing.assert_allclose(decided.probabilities.sum(axis=1), 1.0)
    assert (decided.probabilities[:, 2] == 0).all()
    assert policy.means_of(decided.plans[0]) == Expected(0.8, 12.0, 7)
    assert policy.means_of(Plan(("a",))) is None


def test_one_query_is_fused_as_it_is_among_others():
    policy = policy_of()
    together = policy.decide(QUERIES, 0.3, known())
    for row, query in enumerate(QUERIES):
        found = {arm: [ranked[row]] for arm, ranked in FOUND.items()}
        single = policy.decide([query], 0.3, PolicyInputs(probed=found, datasets=["d"]))
        assert single.rankings[0] == together.rankings[row]


def test_an_arm_that_may_not_answer_is_not_fused():
    policy = policy_of()
    competes = np.array([[True, True, True], [True, False, True]])
    lacking = {"a": FOUND["a"], "b": [B, NO_INPUTS], "c": FOUND["c"]}
    decided = policy.decide(QUERIES, 0.3, known(probed=lacking, competes=competes))
    assert decided.plans == (Plan(("b", "a"), "fuse"), Plan(("a", "c"), "fuse"))
    assert decided.rankings[1].doc_ids == ("p",)
    # Run in spite of it: looked at, and another answers.
    decided = policy.merge(3, QUERIES, known(competes=competes))
    assert decided.plans[1] == Plan(("b", "a"), "cascade") and decided.rankings[1] is None


def test_without_rankings_it_says_what_it_needs():
    with pytest.raises(RouterError, match=r"fuses what a, b find; give their rankings"):
        policy_of().decide(QUERIES, 0.3)


# On disk


@pytest.fixture
def saved(tmp_path):
    prior = prior_of(z=3)
    sets = [ArmSet(("a", "b"), 0.8, 0.4, fusion(0.1, 0.2, 0.7, one=(0.5, 0.25, 0.25)))]
    policy = policy_of(*sets, prior=prior)
    policy.save(tmp_path)
    return policy, tmp_path


def test_a_loaded_policy_decides_alike_and_is_written_alike(saved):
    policy, folder = saved
    loaded = load_policy(folder)
    for datasets, first in ((["d", "d"], "z"), (["one", "d"], "x")):
        before, after = (
            one.decide(QUERIES, 0.0, known(datasets=datasets)) for one in (policy, loaded)
        )
        assert (before.plans, before.rankings) == (after.plans, after.rankings)
        assert before.rankings[0].doc_ids[0] == first
    again = folder / "again"
    again.mkdir()
    loaded.save(again)
    for name in ("policy.json", "prior.safetensors"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


def alter(folder, change):
    path = folder / "policy.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.pop("prior"), "missing or unexpected entries: prior"),
        (lambda c: c.update(prior=None), "arm sets wrongly.*expected 2 weights"),
        (lambda c: c.update(probe_depth=0), "probe_depth should be a whole number of at least 1"),
        (lambda c: c["arm_sets"][3]["model"].update(weights=[1, 1]), "expected 3 weights"),
        (lambda c: c["arm_sets"][3]["model"].update(weights=[1, 1, -1]), "at least 0"),
        (lambda c: c["arm_sets"][3]["model"].update(weights=[1, 1, "1"]), "expected 3 weights"),
        (lambda c: c["arm_sets"][3]["model"]["of_datasets"].update(one=[1]), "expected 3 weights"),
        (lambda c: c["arm_sets"][3]["model"].update(method="x"), "reciprocal_ranks, .* got 'x'"),
        (lambda c: c["arm_sets"][3]["model"].pop("method"), "arm sets wrongly"),
        (lambda c: c["arm_sets"][1].update(arms=["x"]), "an arm set runs x"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(saved, change, told):
    alter(saved[1], change)
    with pytest.raises(RouterError, match=told):
        load_policy(saved[1])


@pytest.mark.parametrize("damage", ["altered", "gone"])
def test_a_missing_or_altered_prior_is_refused(saved, damage):
    path = saved[1] / "prior.safetensors"
    whole = path.read_bytes()
    path.unlink()
    if damage == "altered":
        path.write_bytes(whole[:-1] + b"\x07")
    with pytest.raises(RouterError, match=r"prior\.safetensors"):
        load_policy(saved[1])


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(RouterError, match="a set of a, b fuses others"):
        policy_of(ArmSet(("a", "b"), 0.5, 0.5, fusion(1, 1, arms=("a", "c"))))
    with pytest.raises(RouterError, match="a set of a fuses others"):
        policy_of(ArmSet(("a",), 0.5, 0.5, fusion(1, arms=("a",))))
    with pytest.raises(RouterError, match="reads a document prior, and there is none"):
        policy_of(ArmSet(("a", "b"), 0.5, 0.5, fusion(1, 1, 1)))


def test_it_needs_neither_trees_nor_an_encoder(saved, monkeypatch):
    import builtins

    real = builtins.__import__

    def refusing(name, *args, **kwargs):
        assert name.split(".")[0] not in ("lightgbm", "torch", "transformers")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refusing)
    loaded = load_policy(saved[1])
    loaded.prepare(0.0)
    begin = time.perf_counter()
    loaded.decide(["q"], 0.0, PolicyInputs(probed={arm: FOUND[arm][:1] for arm in ("a", "b")}))
    assert time.perf_counter() > begin
