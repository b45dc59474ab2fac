"""Merging by hand: which arm set λ takes, how documents are ordered, and what is refused."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from arms.errors import RouterError
from arms.records import Ranking
from router.arm_sets import ArmSet
from router.domain import Domain
from router.policies import load_policy
from router.policies.files import write_arrays
from router.policies.guarded import GuardedPolicy
from router.policies.merging import MergingPolicy
from router.policy import Expected, Plan, PolicyInputs
from router.query_vectors import QueryVectors
from router.relevance import relevance_count
from tests.router.merging_policies import (
    ARMS,
    Knows,
    alone,
    arm_set,
    merging,
    model_of,
    no_past,
    real_arm_set,
)

THIRD = 1 / math.log2(3)


def ranking(**scores):
    """Document → score, in order."""
    return Ranking(tuple(scores), tuple(scores.values()))


FOUND = {
    "a": [ranking(x=0.6, y=0.5, z=0.1), ranking(p=0.2)],
    "b": [ranking(w=0.9, y=0.4), ranking(q=0.7, p=0.1)],
}
QUERIES = ["one", "two"]


def known(found=None, **more):
    return PolicyInputs(probed=FOUND if found is None else found, **more)


def at(policy, lam):
    return policy.arm_sets[policy.arm_set_at(lam)].arms


# Which arm set


def test_lam_takes_the_highest_mean_reward_by_hand():
    policy = merging(arm_set("a", "b", quality=0.9, share=0.6))
    # λ: (1−λ)·.9 + λ·.4 against (1−λ)·.5 + λ·.8; they meet at λ = 0.5.
    assert at(policy, 0.0) == at(policy, 0.49) == ("a", "b")
    assert at(policy, 0.51) == at(policy, 1.0) == ("a",)
    assert policy.probes_at(0.3) == ("a", "b")
    assert policy.probes_at(0.7) == ()
    assert policy.probes == ("a", "b")
    assert policy.arm_sets[3].reward(0.25) == pytest.approx(0.75 * 0.9 + 0.25 * 0.4)


def test_ties_go_to_the_lower_share_then_to_the_earlier():
    # Equal but for binary fractions, which say that the set is better.
    singles = [ArmSet((arm,), 0.3, 0.2) for arm in ARMS]
    level = MergingPolicy(
        "m", ARMS, [*singles, arm_set("a", "b", quality=0.4, share=0.6)], None, None
    )
    assert 0.0 < level.arm_sets[3].reward(0.2) - level.arm_sets[0].reward(0.2) < 1e-12
    assert at(level, 0.2) == ("a",)
    dearer_first = [ArmSet(("a",), 0.5, 0.3), ArmSet(("b",), 0.4, 0.2), ArmSet(("c",), 0.4, 0.2)]
    policy = MergingPolicy("m", ARMS, dearer_first, None, None)
    assert at(policy, 0.5) == ("b",)
    assert at(policy, 1.0) == ("b",)
    assert at(policy, 0.0) == ("a",)


def test_every_arm_set_that_some_lam_takes_has_a_lam():
    random = np.random.default_rng(7)
    several = 0
    for _ in range(25):
        numbers = random.random((7, 2)).round(int(random.integers(1, 4)))  # with many ties
        arm_sets = [ArmSet((arm,), *numbers[place]) for place, arm in enumerate(ARMS)]
        arm_sets += [arm_set("a", "b", quality=q, share=s) for q, s in numbers[3:]]
        policy = MergingPolicy("m", ARMS, arm_sets, None, None)
        told = policy.overhead_keys()
        costs = [policy.overhead_key(lam) for lam in np.linspace(0.0, 1.0, 251)]
        taken = set(costs)
        assert taken <= set(told)
        for number in taken:
            if costs.count(number) > 2:  # inside its range, not at an end where another is as good
                near = (told[number] - 1e-6, told[number] + 1e-6)
                assert {policy.arm_set_at(lam) for lam in near} == {number}
        assert all(policy.arm_set_at(lam) == number for number, lam in told.items())
        several += len(taken) > 2
    assert several > 4


# The merged ranking


def test_the_merged_ranking_goes_by_score_then_name():
    policy = merging(arm_set("a", "b", top=2))
    decided = policy.decide(QUERIES, 0.0, known())
    first, second = decided.rankings
    # z is a's third; the names of equal ones don't come in the order of their keys.
    assert first.doc_ids == ("w", "x", "y")
    assert first.scores == pytest.approx([math.log(g / (1 - g)) for g in (0.9, 0.6, 0.5)])
    assert second.doc_ids == ("q", "p")
    # 0.9 + 0.6/log2(3) lies above 1, which no nDCG does.
    assert decided.predicted_quality.tolist() == pytest.approx([1.0, 0.7 + 0.2 * THIRD])
    assert [str(plan) for plan in decided.plans] == ["a&b", "a&b"]
    assert decided.probabilities[:, 2].tolist() == [0.0, 0.0]
    assert decided.probabilities.sum(axis=1).tolist() == pytest.approx([1.0, 1.0])


def test_equal_scores_go_by_name():
    names = [f"d{place}" for place in range(9, -1, -1)]
    found = {"a": [Ranking(tuple(names), (0.4,) * 10)], "b": [Ranking(("e", "c"), (0.4, 0.4))]}
    policy = merging(arm_set("a", "b", top=10))
    merged = policy.decide(["one"], 0.0, known(found)).rankings[0]
    assert merged.doc_ids == tuple(sorted([*names, "e", "c"]))


def test_the_model_that_orders_is_added_by_its_weight():
    # The ordering model knows b's scores; y has 0.4 of it, x none.
    ordered = [
        merging(arm_set("a", "b", top=2, order_weight=weight))
        .decide(QUERIES[:1], 0.0, PolicyInputs(probed={arm: one[:1] for arm, one in FOUND.items()}))
        .rankings[0]
        for weight in (0.0, 3.0)
    ]
    assert [one.doc_ids for one in ordered] == [("w", "x", "y"), ("w", "y", "x")]
    assert ordered[1].scores[1] == pytest.approx(0.0 + 3.0 * 0.4)


def test_last_in_the_plan_stands_the_arm_expected_to_be_best():
    found = {"a": [ranking(x=0.9, y=0.8)], "b": [ranking(w=0.3)]}
    decided = merging(arm_set("a", "b")).decide(["one"], 0.0, known(found))
    assert decided.plans == (Plan(("b", "a"), "merge"),)
    assert decided.plans[0].answering_arm == "a"
    # Of a's list 0.9 + 0.8/log2(3), of b's 0.3: over τ = 0.1 the rest is next to nothing.
    odds = math.exp(-(0.9 + 0.8 * THIRD - 0.3) / 0.1)
    assert decided.probabilities[0].tolist() == pytest.approx(
        [1 / (1 + odds), odds / (1 + odds), 0]
    )


def test_what_is_expected_of_the_merged_answer_is_its_ndcg():
    found = {"a": [ranking(x=0.3, y=0.2)], "b": [ranking(w=0.4, x=0.1)]}
    decided = merging(arm_set("a", "b")).decide(["one"], 0.0, known(found))
    assert decided.rankings[0].doc_ids == ("w", "x", "y")
    assert decided.predicted_quality[0] == pytest.approx(0.4 + 0.3 * THIRD)  # k = 2


def test_one_arm_ranked_anew_is_a_plan_of_its_own():
    found = {"a": [ranking(y=0.1, x=0.6)]}
    policy = merging(arm_set("a"))
    decided = policy.decide(["one"], 0.0, known(found))
    assert str(decided.plans[0]) == "a&"
    assert decided.rankings[0].doc_ids == ("x", "y")
    assert policy.probes_at(0.0) == ("a",)


def test_one_arm_alone_answers_as_it_is_and_says_why():
    policy = merging(arm_set("a", "b", quality=0.9, share=0.9))
    decided = policy.decide(QUERIES, 1.0, PolicyInputs())
    assert decided.plans == (Plan(("a",)),) * 2
    assert decided.rankings is None
    assert decided.reasons == ("the best arm at this λ, whatever the query",) * 2
    without_a = PolicyInputs(competes=np.array([[False, True, True]] * 2))
    assert policy.decide(QUERIES, 1.0, without_a).plans == (Plan(("b",)),) * 2
    assert policy.probabilities(QUERIES, 1.0).sum(axis=1).tolist() == pytest.approx([1, 1])


# Arms that may not answer, or that aren't there


def test_arms_that_may_not_answer_are_not_run():
    sets = [
        *(ArmSet((arm,), quality, 0.1) for arm, quality in zip(ARMS, (0.5, 0.4, 0.6), strict=True)),
        arm_set("a", "b", quality=0.7, share=0.5),
        arm_set("a", "b", "c", quality=0.9, share=0.9),
    ]
    policy = MergingPolicy("m", ARMS, sets, None, None)
    assert policy.probes_at(0.0) == ("a", "b", "c")
    assert policy.probes_at(0.0, ("a", "c")) == ("a", "c")
    assert policy.arm_set_at(0.0, ("a", "c")) == 4
    # What is left of the larger set is the smaller one, whose models know just these arms.
    assert policy.arm_set_at(0.0, ("a", "b")) == 3
    # One arm is left of each set: the better arm alone answers.
    assert policy.probes_at(0.0, ("c",)) == ()
    few = MergingPolicy("m", ARMS, sets[:4], None, None)
    assert (few.arm_set_at(0.0, ("b", "c")), few.probes_at(0.0, ("b", "c"))) == (2, ())
    competes = np.array([[False, True, True], [True, True, False]])
    decided = few.decide(QUERIES, 0.0, known(competes=competes))
    assert decided.plans == (Plan(("c",)), Plan(("a", "b"), "merge"))
    assert decided.rankings[0] is None and decided.rankings[1].doc_ids == ("q", "p")
    assert np.isnan(decided.predicted_quality[0])  # nobody looked at c
    assert decided.predicted_quality[1] == pytest.approx(0.7 + 0.2 * THIRD)
    assert decided.probabilities[0].argmax() == 2
    assert decided.reasons[0] == "the best arm at this λ, whatever the query"
    assert decided.reasons[1].endswith("without document history: no document found has any")


def test_what_was_run_and_may_not_answer_is_not_merged():
    policy = merging(arm_set("a", "b", "c"))
    found = {**FOUND, "c": FOUND["a"]}
    competes = np.array([[True, True, False]] * 2)
    decided = policy.decide(QUERIES, 0.0, known(found, competes=competes))
    assert [plan.combine for plan in decided.plans] == ["cascade", "cascade"]
    assert all(plan.answering_arm != "c" for plan in decided.plans)
    assert decided.rankings == (None, None)


def test_a_dataset_without_one_arm_merges_the_others():
    policy = merging(arm_set("a", "b", "c"))
    competes = np.array([[True, True, False]] * 2)
    missing = policy.decide(QUERIES, 0.0, known(FOUND, competes=competes))
    assert [str(plan) for plan in missing.plans] == ["a&b", "a&b"]
    # Among labelled queries of other datasets the arm is there, with nothing found.
    empty = {**FOUND, "c": [Ranking((), ()), FOUND["a"][1]]}
    competes = np.array([[True, True, False], [True, True, True]])
    mixed = policy.decide(QUERIES, 0.0, known(empty, competes=competes))
    assert mixed.rankings[0] == missing.rankings[0]
    assert mixed.predicted_quality[0] == missing.predicted_quality[0]
    assert set(mixed.plans[1].arms) == {"a", "b", "c"}


def test_a_dataset_without_any_of_the_arms_has_another_answer():
    policy = merging(arm_set("a", "b"))
    decided = policy.decide(
        ["one"], 0.0, PolicyInputs(probed={}, competes=np.array([[False, False, True]]))
    )
    assert decided.plans == (Plan(("c",)),)
    assert decided.rankings is None


def test_a_merged_plan_has_the_means_of_its_set():
    policy = merging(replace(arm_set("a", "b", quality=0.8), latency_ms=12.0, queries=7))
    assert policy.means_of(Plan(("b", "a"), "merge")) == Expected(0.8, 12.0, 7)
    assert policy.means_of(Plan(("a", "c"), "merge")) is None
    assert policy.means_of(Plan(("a",))) is None


def test_nothing_found_is_an_empty_answer():
    nothing = {"a": [Ranking((), ())], "b": [Ranking((), ())]}
    decided = merging(arm_set("a", "b")).decide(["one"], 0.0, known(nothing))
    assert decided.rankings == (Ranking((), ()),)
    assert decided.predicted_quality.tolist() == [0.0]
    assert decided.plans[0].combine == "merge" and set(decided.plans[0].arms) == {"a", "b"}


def test_no_query():
    decided = merging(arm_set("a", "b")).decide([], 0.0, known({"a": [], "b": []}))
    assert (decided.plans, decided.rankings, decided.probabilities.shape) == ((), (), (0, 3))


# What is read


def test_one_query_decides_as_in_a_batch():
    policy = merging(arm_set("a", "b", top=2, order_weight=0.5))
    whole = policy.decide(QUERIES, 0.0, known())
    for row, query in enumerate(QUERIES):
        one = policy.decide([query], 0.0, known({arm: [f[row]] for arm, f in FOUND.items()}))
        assert one.plans[0] == whole.plans[row]
        assert one.rankings[0] == whole.rankings[row]
        assert one.predicted_quality[0] == whole.predicted_quality[row]
        np.testing.assert_allclose(one.probabilities[0], whole.probabilities[row], atol=1e-12)


def test_no_more_is_read_than_the_depth():
    long = {"a": [Ranking(tuple(f"d{n:02d}" for n in range(30)), tuple(np.linspace(0.9, 0.1, 30)))]}
    cut = {"a": [Ranking(long["a"][0].doc_ids[:12], long["a"][0].scores[:12])]}
    policy = merging(arm_set("a", top=30), depth=12)
    deep, shallow = (policy.decide(["one"], 0.0, known(one)).rankings[0] for one in (long, cut))
    assert deep == shallow
    assert len(deep.doc_ids) == 12


def test_a_batch_is_looked_at_once_and_a_single_query_every_time():
    policy = merging(arm_set("a", "b"))
    booster = policy.arm_sets[3].model.booster
    batch = known()
    policy.decide(QUERIES, 0.0, batch)
    policy.probabilities(QUERIES, 0.1, batch)
    assert booster.asked == 1
    policy.decide(QUERIES, 0.0, known(dict(FOUND)))  # other rankings
    assert booster.asked == 2
    one = known({arm: found[:1] for arm, found in FOUND.items()})
    for _ in range(3):  # as overhead is measured
        policy.decide(QUERIES[:1], 0.0, one)
    assert booster.asked == 5


def test_without_rankings_it_says_what_to_do():
    policy = merging(arm_set("a", "b"))
    for ask in (policy.decide, policy.probabilities):
        with pytest.raises(RouterError, match=r"merges what a, b find; give their rankings"):
            ask(QUERIES, 0.0)


class Counting:
    """In place of a frozen encoder."""

    embedded = loaded = 0

    def embed(self, queries, device):
        self.embedded += 1
        return np.tile(np.array([[0.6, 0.8]], dtype=np.float32), (len(queries), 1))

    def load(self, device):
        self.loaded += 1


def reading(order=("a", "b")):
    """At λ = 0 an arm set that reads vectors, at 0.5 one that doesn't, at 1 one arm alone."""
    vectors = QueryVectors(
        np.zeros(2, np.float32), np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32),
        np.zeros((2, 3), np.float32), np.ones((2, 3), dtype=bool), 1, 0.1,
    )  # fmt: skip
    booster = Knows(order)
    booster.features = relevance_count(2, order, True)
    read = ArmSet(order, 0.95, 0.9, model_of(order, booster), reads_vectors=True)
    cheap = arm_set("a", quality=0.8, share=0.3)
    queries = Counting()
    arm_sets = [*alone(share=0.05), cheap, read]
    return MergingPolicy("m", ARMS, arm_sets, vectors, queries, 10), queries


def test_a_query_is_embedded_only_where_the_arm_set_reads_vectors():
    policy, queries = reading()
    assert [policy.arm_set_at(lam) for lam in (0.0, 0.4, 1.0)] == [4, 3, 0]
    assert [policy.embeds_at(lam) for lam in (0.0, 0.4, 1.0)] == [True, False, False]
    assert policy.embed(QUERIES, 0.4) is None and policy.embed(QUERIES, 1.0) is None
    policy.decide(QUERIES, 0.4, known())
    policy.decide(QUERIES, 1.0, known())
    policy.prepare(0.4)
    policy.prepare(1.0)
    assert (queries.embedded, queries.loaded) == (0, 0)
    assert policy.embed(QUERIES, 0.0).shape == (2, 2)
    policy.decide(QUERIES, 0.0, known())
    assert queries.embedded == 2
    policy.decide(QUERIES, 0.0, known(embeddings=policy.embed(QUERIES, 0.0)))
    assert queries.embedded == 3  # what is given isn't made again
    policy.prepare(0.0)
    assert queries.loaded == 1
    assert not policy.reads_vectors


def test_it_tells_no_vectors_that_a_guard_could_read():
    policy, _ = reading()
    domain = Domain(np.eye(2, dtype=np.float16), 0.5, 0.05)
    with pytest.raises(RouterError, match="reads no query vectors"):
        GuardedPolicy("g", policy, domain, np.zeros(3), np.zeros(3))


# On disk, and what doesn't fit


@pytest.fixture
def saved(tmp_path):
    policy = merging(real_arm_set("a", "b"), real_arm_set("a", "b", "c", quality=0.95, share=0.9))
    policy.save(tmp_path)
    return policy, tmp_path


def test_saved_it_decides_alike(saved):
    policy, folder = saved
    loaded = load_policy(folder)
    assert loaded.probes == policy.probes == ("a", "b", "c")
    assert loaded.overhead_keys() == policy.overhead_keys()
    found = {**FOUND, "c": [ranking(z=3.0, v=1.0), Ranking((), ())]}
    for lam in (0.0, 0.2, 0.9):
        assert loaded.arm_set_at(lam) == policy.arm_set_at(lam)
        before, after = (one.decide(QUERIES, lam, known(found)) for one in (policy, loaded))
        assert (before.plans, before.rankings) == (after.plans, after.rankings)
        np.testing.assert_array_equal(before.probabilities, after.probabilities)
    assert len({str(policy.decide(QUERIES, lam, known(found)).plans) for lam in (0, 0.2, 0.9)}) == 3
    again = folder / "again"
    again.mkdir()
    loaded.save(again)
    for path in sorted(one for one in again.rglob("*") if one.is_file()):
        assert path.read_bytes() == (folder / path.relative_to(again)).read_bytes()


@pytest.mark.parametrize("name", ["set-3/boosters-1.txt", "set-4/past.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "altered", "gone"])
def test_a_missing_or_altered_file_is_refused(saved, name, damage):
    path = saved[1] / name
    whole = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(whole[:-40] if damage == "cut" else b"tree" + whole)
    with pytest.raises(RouterError, match=path.name):
        load_policy(saved[1])


def alter(folder, change):
    path = folder / "policy.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.pop("tau"), "missing or unexpected entries: tau"),
        (lambda c: c["arm_sets"][0].update(arms=["b"]), "no arm set is a alone"),
        (lambda c: c["arm_sets"][0].pop("share"), "describes its arm sets wrongly"),
        (lambda c: c["arm_sets"][3]["model"].pop("boosters"), "describes its arm sets wrongly"),
        (lambda c: c.update(arm_sets=[3]), "describes its arm sets wrongly"),
        (lambda c: c.update(arm_sets=None), "describes its arm sets wrongly"),
        (lambda c: c["arm_sets"][0].update(arms=[]), "an arm set without a model has the arms"),
        (lambda c: c["arm_sets"][1].update(arms=["x"]), "an arm set runs x"),
        (lambda c: c.update(encoder={"encoder": "x"}), "k should be a whole number of at least 1"),
        (
            lambda c: c.update(encoder={"encoder": "x"}, k=1, temperature=0.1),
            "describes its encoder wrongly",
        ),
        (lambda c: c.update(arms=None), "describes its arms, sets or encoder wrongly"),
        (lambda c: c.update(tau=0), "tau should be a finite number above 0, got 0"),
        (lambda c: c.update(tau=-0.1), "tau should be a finite number above 0, got -0.1"),
        (lambda c: c.update(tau=math.nan), "tau should be a finite number above 0, got nan"),
        (lambda c: c.update(tau="0.1"), "tau should be a finite number above 0, got '0.1'"),
        (lambda c: c.update(probe_depth=9), "probe_depth should be a whole number of at least 10"),
        (lambda c: c.update(probe_depth=12.5), "probe_depth should be a whole .* got 12.5"),
        (lambda c: c["arm_sets"][0].update(queries=-1), r"\(set-0\).* queries .* least 0, got -1"),
        (lambda c: c["arm_sets"][0].update(share=math.inf), "share should be a finite .* got inf"),
        (lambda c: c["arm_sets"][3]["model"].update(k=0), r"\(set-3\).* k .* least 1, got 0"),
        (lambda c: c["arm_sets"][3]["model"].update(top=True), "top .* least 1, got True"),
        (lambda c: c["arm_sets"][3]["model"].update(top=1), "top .* at least 2, got 1"),
        (
            lambda c: c["arm_sets"][4]["model"].update(order_weight=math.nan),
            r"\(set-4\) is damaged: order_weight should be a finite number, got nan",
        ),
    ],
)
def test_a_description_that_does_not_fit_is_refused(saved, change, told):
    alter(saved[1], change)
    with pytest.raises(RouterError, match=told) as raised:
        load_policy(saved[1])
    if "should be" in told or "least" in told:
        for part in (str(saved[1] / "policy.json"), "copy the whole router folder", "l2r train"):
            assert part in str(raised.value)


def test_every_damaged_number_is_told_at_once(saved):
    alter(saved[1], lambda c: c.update(tau=None, probe_depth="20"))
    with pytest.raises(RouterError, match=r"probe_depth .* got '20'; tau .* got None"):
        load_policy(saved[1])


def test_the_past_of_another_set_is_refused(saved):
    folder = saved[1]
    others = replace(no_past(), documents=np.array([-7], dtype=np.int64))
    write_arrays(
        folder / "set-3" / "past.safetensors",
        {name: getattr(others, name) for name in ("documents", "starts", "queries", "gains")},
    )
    with pytest.raises(RouterError, match=r"set-3.past.safetensors is not the file that training"):
        load_policy(folder)


def test_models_of_other_arms_are_refused(saved):
    alter(saved[1], lambda c: c["arm_sets"][3].update(arms=["a", "b", "c"]))
    policy = load_policy(saved[1])  # LightGBM's own text is read later
    found = {**FOUND, "c": [Ranking((), ())] * 2}
    assert policy.arm_sets[3].arms == ("a", "b", "c")
    with pytest.raises(RouterError, match="its files are of another router"):
        policy.merge(3, QUERIES, known(found))
    one_model = Knows(("a", "b"))
    one_model.texts = ("gain",)
    with pytest.raises(RouterError, match="models of a, b don't read what its arms find"):
        merging(arm_set("a", "b", booster=one_model))


def test_all_that_does_not_fit_is_told_at_once():
    wrong = [
        ArmSet(("a", "b"), 0.5, 0.5),
        ArmSet(("d",), 0.5, 0.5),
        ArmSet(("a",), 0.5, 0.5, model_of(("a",)), reads_vectors=True),
    ]
    with pytest.raises(RouterError) as raised:
        MergingPolicy("m", ARMS, wrong, None, None)
    told = str(raised.value)
    for part in ("without a model has the arms a, b", "an arm set runs d", "there are none",
                 "no arm set is b alone", "no arm set is c alone"):  # fmt: skip
        assert part in told
    vectors = QueryVectors(
        np.zeros(2, np.float32), np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32),
        np.zeros((2, 3), np.float32), np.ones((2, 3), dtype=bool), 1, 0.1,
    )  # fmt: skip
    with pytest.raises(RouterError, match="come together or not at all"):
        MergingPolicy("m", ARMS, alone(), vectors, None)
    assert no_past().gains.tolist() == [0.0]
