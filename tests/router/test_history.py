"""What training tells of documents, and what of it models without history make."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from arms.errors import RouterError
from arms.records import Ranking
from router.candidates import candidates
from router.history import HISTORY_COLUMNS, PLAIN_HISTORY_COLUMNS, DocumentHistory, history_of
from router.policies import load_policy
from router.policies.merging import MergingPolicy
from router.policy import PolicyInputs
from router.probe_features import as_lists, key_of
from router.query_vectors import QueryVectors
from router.relevance import behind_best, fused_columns, list_columns
from tests.router.merging_policies import ARMS, Knows, alone, arm_set, model_of, real_arm_set

FOUND = {"a": [Ranking(("x", "y", "z"), (4.0, 2.0, 1.0)), Ranking(("w",), (3.0,))]}
QUERIES = ["one", "two"]


def lists_of(found):
    return as_lists(list(found), found, 10, len(next(iter(found.values()))))


def past_of(pairs):
    """Document → its (training query, gain)."""
    flat = sorted((key_of(doc), query, gain) for doc, told in pairs.items() for query, gain in told)
    keys, counts = np.unique([key for key, _, _ in flat], return_counts=True)
    return DocumentHistory(
        keys,
        np.append(0, np.cumsum(counts)),
        np.array([query for _, query, _ in flat], dtype=np.int32),
        np.array([gain for _, _, gain in flat], dtype=np.float32),
    )


# x was relevant to training query 0; y a candidate of 0 and 1, relevant to none.
PAST = past_of({"x": [(0, 1.0)], "y": [(0, 0.0), (1, 0.0)]})


def named(history, columns):
    assert history.columns.shape[1] == len(columns)
    return [dict(zip(columns, row, strict=True)) for row in history.columns.tolist()]


def by_document(asked, rows):
    ids = {key_of(doc): doc for doc in "wxyz"}
    return {ids[int(key)]: row for key, row in zip(asked.documents, rows, strict=True)}


def test_history_beside_that_of_the_list_by_hand():
    asked = candidates(["a"], lists_of(FOUND), 5)
    leading = -asked.features[:, 0]  # by rank
    history = history_of(PAST, asked, leading, None, None)
    found = by_document(asked, named(history, PLAIN_HISTORY_COLUMNS))
    assert dict(zip(found, history.told, strict=True)) == {
        doc: doc in "xy" for doc in found
    }  # nobody saw w or z
    x, y, z, w = (found[doc] for doc in "xyzw")
    assert (x["mean_gain"], x["queries"], y["mean_gain"], y["queries"]) == (1.0, 1, 0.0, 2)
    assert math.isnan(z["mean_gain"]) and math.isnan(w["queries"])
    for one in (x, y, z):
        assert one["told_share"] == pytest.approx(2 / 3)
        assert one["relevant_share"] == pytest.approx(1 / 3)
        assert (one["best_gain"], one["leader_gain"]) == (1.0, 1.0)
    assert (x["behind_best_gain"], y["behind_best_gain"], z["behind_best_gain"]) == (0, -1, -1)
    assert [w[one] for one in PLAIN_HISTORY_COLUMNS[2:]] == [0.0] * 5
    # Where z leads, the leader has no history.
    other = history_of(PAST, asked, -leading, None, None)
    assert by_document(asked, named(other, PLAIN_HISTORY_COLUMNS))["x"]["leader_gain"] == 0.0


def test_nearness_of_past_queries_by_hand():
    unit = np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)
    vectors = QueryVectors(
        np.zeros(2, np.float32), np.eye(2, dtype=np.float32), unit, np.zeros((2, 1), np.float32),
        np.ones((2, 1), dtype=bool), 1, 0.1,
    )  # fmt: skip
    asked = candidates(["a"], lists_of(FOUND), 5)
    embeddings = np.array([[0.6, 0.8], [1.0, 0.0]], dtype=np.float32)
    history = history_of(PAST, asked, -asked.features[:, 0], vectors, embeddings)
    found = by_document(asked, named(history, HISTORY_COLUMNS))
    x, y, w = (found[doc] for doc in "xyw")
    assert (x["nearest_where_relevant"], y["nearest_where_not"]) == pytest.approx((0.6, 0.8))
    assert x["nearest_query"] == pytest.approx(0.8) and w["nearest_query"] == 1.0
    assert x["best_nearest"] == y["best_nearest"] == pytest.approx(0.6)
    assert y["behind_best_nearest"] == pytest.approx(-0.6)
    assert y["leader_nearest"] == pytest.approx(0.6) and w["best_nearest"] == 0.0


def test_linear_fusion_by_hand():
    found = {"a": FOUND["a"][:1], "b": [Ranking(("y", "w"), (5.0, 4.0))]}
    lists = lists_of(found)
    asked = candidates(["a", "b"], lists, 5)
    values = by_document(asked, list_columns(["a", "b"], lists, asked).tolist())
    assert values == {"x": [1.0, 0.8], "y": [0.5, 1.0], "z": [0.25, 0.8], "w": [0.25, 0.8]}
    fused = by_document(asked, fused_columns(["a", "b"], lists, asked, (1.0, 5.0)).tolist())
    assert fused["y"] == pytest.approx([0.5, 1.0, 0.0])
    assert fused["x"][2] == pytest.approx(5.0 - 5.5)
    assert fused_columns(["a", "b"], lists, asked, ()) is None
    assert behind_best(np.array([3.0, 1.0, 2.0]), np.array([0, 0, 4])).tolist() == [0, -2, 0]


class Says:
    """In place of boosters: gain and order score, the same for all documents but the first."""

    texts = ("gain", "order")

    def __init__(self, features, gain):
        self.features, self.gain = features, gain

    def predict(self, columns):
        assert columns.shape[1] == self.features
        first = columns[:, 0] == 0  # rank in a's list
        return np.column_stack([np.where(first, self.gain, 0.2), first.astype(float)])

    def load(self):
        return []


def with_both(weight, **means):
    """An arm set of a: without history the first document gains .9, with history .1."""
    plain = replace(model_of(("a",)), past=None)
    plain = replace(plain, booster=Says(Knows(("a",)).features - len(PLAIN_HISTORY_COLUMNS), 0.9))
    model = replace(
        model_of(("a",), Says(Knows(("a",)).features, 0.1)),
        past=PAST,
        plain=plain,
        history_weight=weight,
    )
    return replace(arm_set("a", **means), model=model)


def decided(policy, found=FOUND, lam=0.0):
    return policy.decide(QUERIES, lam, PolicyInputs(probed=found))


def test_a_query_without_history_is_answered_as_by_the_policy_without():
    policy = MergingPolicy("merging", ARMS, [*alone(), with_both(1.0)], None, None, 10)
    without = policy.without_history("merging_no_history")
    assert policy.learns_documents and not without.learns_documents
    both, plain = decided(policy), decided(without)
    assert both.rankings[1] == plain.rankings[1] and both.plans[1] == plain.plans[1]
    assert both.predicted_quality[1] == plain.predicted_quality[1]
    np.testing.assert_array_equal(both.probabilities[1], plain.probabilities[1])
    assert both.reasons[1].endswith("without document history: no document found has any")
    assert plain.reasons[0] == "ranked anew, without document history"
    # Of the first query x and y have some: x, first in the list, is held to gain little.
    assert plain.rankings[0].doc_ids[0] == "x" and both.rankings[0].doc_ids[0] == "y"
    assert both.reasons[0].endswith("with the history of documents that earlier questions found")
    nothing = MergingPolicy("merging", ARMS, [*alone(), with_both(0.0)], None, None, 10)
    assert decided(nothing).rankings == plain.rankings
    assert decided(nothing).reasons[0].startswith("ranked anew, without document history")


def test_both_answers_are_averaged():
    lists = lists_of(FOUND)
    of_query = np.zeros(
        (2, Knows(("a",)).features - 7 - len(candidates(["a"], lists, 3).features[0]))
    )
    told = {
        weight: with_both(weight).model.tell(("a",), lists, of_query, None, None)
        for weight in (0.0, 0.25, 1.0)
    }
    rows = told[0.0].asked.rows
    for part in ("gains", "order"):
        ends = [getattr(told[weight], part) for weight in (0.0, 1.0)]
        expected = np.where(rows == 0, 0.75 * ends[0] + 0.25 * ends[1], ends[0])
        np.testing.assert_allclose(getattr(told[0.25], part), expected)
    assert told[0.25].with_history.tolist() == [True, False]
    assert told[0.0].with_history.tolist() == [False, False]


def test_on_a_dataset_without_history_sets_are_worth_what_they_are_without():
    arm_sets = [*alone(quality=0.5, share=0.1), with_both(1.0, quality=0.7, share=0.2)]
    foreign = [0.5, 0.5, 0.5, 0.4]
    policy = MergingPolicy("merging", ARMS, arm_sets, None, None, 10, 0.1, ["known"], foreign)
    assert [policy.arm_set_at(0.1, None, one) for one in (None, "known", "new")] == [3, 3, 0]
    assert (
        policy.probes_at(0.1, None, "known") == ("a",) and policy.probes_at(0.1, None, "new") == ()
    )
    known = PolicyInputs(probed=FOUND, datasets=["new", "known"])
    answers = policy.decide(QUERIES, 0.1, known)
    assert [plan.combine for plan in answers.plans] == ["single", "merge"]
    assert answers.rankings[0] is None and answers.rankings[1].doc_ids == ("w",)
    with pytest.raises(RouterError, match="without history each arm set has a mean quality"):
        MergingPolicy("merging", ARMS, arm_sets, None, None, 10, 0.1, ["known"], foreign[:2])


@pytest.fixture
def saved(tmp_path):
    one = real_arm_set("a", "b")
    booster = replace(real_arm_set("a", "b", history=False).model, past=None).booster
    plain = replace(one.model, booster=booster, past=None)
    model = replace(one.model, plain=plain, history_weight=0.5)
    arm_sets = [*alone(), replace(one, model=model)]
    policy = MergingPolicy("merging", ARMS, arm_sets, None, None, 10, 0.1, ["d"], [0.1] * 4)
    policy.save(tmp_path)
    return policy, tmp_path


def alter(folder, change):
    path = folder / "policy.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_saved_it_answers_alike(saved):
    policy, folder = saved
    loaded = load_policy(folder)
    found = {"a": FOUND["a"], "b": [Ranking(("y", "v"), (2.0, 1.0))] * 2}
    before, after = (decided(one, found) for one in (policy, loaded))
    assert before.rankings == after.rankings and before.reasons == after.reasons
    assert (loaded.datasets, loaded.foreign) == (("d",), (0.1,) * 4)
    assert loaded.learns_documents


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c["arm_sets"][3]["model"].update(history_weight=1.5), "describes its arm sets"),
        (lambda c: c["arm_sets"][3]["model"].update(history_weight=None), "history_weight should"),
        (lambda c: c["arm_sets"][3]["model"].update(fusion=[1.0]), "describes its arm sets"),
        (lambda c: c["arm_sets"][3]["model"]["plain"].update(k=0), r"without-history.* k .* got 0"),
        (lambda c: c["arm_sets"][3]["model"].pop("plain"), "describes its arm sets"),
        (lambda c: c.update(foreign=[0.1]), "each arm set has a mean quality"),
        (lambda c: c.update(datasets=3), "describes its arms, sets or encoder wrongly"),
    ],
)
def test_a_damaged_description_is_refused(saved, change, told):
    alter(saved[1], change)
    with pytest.raises(RouterError, match=told):
        load_policy(saved[1])


def test_an_altered_model_without_history_is_refused(saved):
    path = saved[1] / "set-3" / "without-history" / "boosters-1.txt"
    path.write_bytes(b"tree" + path.read_bytes())
    with pytest.raises(RouterError, match=r"boosters-1\.txt"):
        load_policy(saved[1])
