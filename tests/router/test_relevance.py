"""Candidates, their past, and expected nDCG, by hand."""

import json
import math

import numpy as np
import pytest

from arms.errors import RouterError
from arms.records import Ranking
from router.boosters import Boosters
from router.candidates import candidate_columns, candidates
from router.history import HISTORY_COLUMNS, PAST_COLUMNS, DocumentHistory, history_of
from router.policies import load_policy
from router.policies.files import write_arrays
from router.policies.quality import QualityPolicy
from router.probe_features import as_lists, key_of
from router.quality_model import QualityModel, feature_count
from router.query_vectors import QueryVectors
from router.relevance import RelevanceModel, relevance_count

FOUND = {
    "a": [Ranking(("x", "y", "z"), (3.0, 2.0, 1.0)), Ranking((), ())],
    "b": [Ranking(("y", "w"), (0.9, 0.5)), Ranking(("x",), (1.0,))],
}


def lists_of(found, depth=10):
    return as_lists(list(found), found, depth, len(next(iter(found.values()))))


def named(found, top=5):
    """(query, document) → its columns by name."""
    asked = candidates(list(found), lists_of(found), top)
    names = candidate_columns(list(found))
    assert asked.features.shape == (len(asked.rows), len(names))
    ids = {key_of(doc_id): doc_id for doc_id in "wxyz"}
    return {
        (int(row), ids[int(key)]): dict(zip(names, values, strict=True))
        for row, key, values in zip(
            asked.rows, asked.documents, asked.features.tolist(), strict=True
        )
    }


def test_candidates_by_hand():
    seen = named(FOUND)
    assert sorted(seen) == [(0, "w"), (0, "x"), (0, "y"), (0, "z"), (1, "x")]
    y, z = seen[0, "y"], seen[0, "z"]
    assert (y["a:rank"], y["b:rank"], z["b:rank"]) == (1, 0, 10)
    deviation = math.sqrt(2 / 3)
    assert y["a:behind_first"] == y["a:behind_previous"] == pytest.approx(1 / deviation)
    assert y["b:ahead_of_best_other"] == pytest.approx(2.0)  # 0.4 over a deviation of 0.2
    assert math.isnan(z["b:score"])
    assert z["b:share_of_first"] == pytest.approx(0.5 / 0.9)  # as low as b's last
    assert y["reciprocal_ranks"] == pytest.approx(1 / 62 + 1 / 61)
    assert y["discounts"] == pytest.approx(1 + 1 / math.log2(3))
    assert (y["discounts_behind_best"], z["discounts_behind_best"]) == (
        0.0,
        pytest.approx(0.5 - y["discounts"]),
    )
    assert y["discounts_ahead_of_best_other"] == pytest.approx(1 / math.log2(3))  # x: 1 + 0
    assert (y["lists_within_1"], y["lists_within_3"], y["candidates"]) == (1, 2, 4)
    only = seen[1, "x"]
    assert (only["a:rank"], only["candidates"]) == (10, 1)
    assert math.isnan(only["a:share_of_first"])
    assert sorted(named(FOUND, top=1)) == [(0, "x"), (0, "y"), (1, "x")]


def test_a_query_has_the_same_columns_in_any_batch():
    whole = named(FOUND)
    for row in range(2):
        alone = named({arm: found[row : row + 1] for arm, found in FOUND.items()})
        for (_, doc_id), values in alone.items():
            assert values == pytest.approx(whole[row, doc_id], nan_ok=True)


def past():
    """x was seen for training queries 0 (relevant) and 1; y for 1 (half of the gain)."""
    keys = np.array(sorted([key_of("x"), key_of("y")]))
    pairs = {key_of("x"): ([0, 1], [1.0, 0.0]), key_of("y"): ([1], [0.5])}
    queries, gains = zip(*(pairs[int(key)] for key in keys), strict=True)
    starts = np.cumsum([0, *(len(one) for one in queries)])
    return DocumentHistory(
        keys,
        starts,
        np.concatenate(queries).astype(np.int32),
        np.concatenate(gains).astype(np.float32),
    )


def test_the_past_of_documents_by_hand():
    asked = np.array([key_of("x"), key_of("y"), key_of("z")])
    cosines = np.array([[0.8, 0.9], [0.6, -np.inf]], dtype=np.float32)
    found = past().columns(asked, np.array([0, 0, 0]), cosines, 0.1)
    x, y = (dict(zip(PAST_COLUMNS, row, strict=True)) for row in found[:2])
    assert (x["nearest_where_relevant"], x["nearest_where_not"]) == pytest.approx((0.8, 0.9))
    weights = math.exp(-2), math.exp(-1)
    assert x["weighted_gain"] == pytest.approx(weights[0] / sum(weights), rel=1e-5)
    assert x["log_weight"] == pytest.approx(math.log(sum(weights)), rel=1e-5)
    assert (x["mean_gain"], x["queries"], y["mean_gain"]) == (0.5, 2, 0.5)
    assert np.isnan(found[2]).all()
    told = past().columns(asked, np.array([1, 1, 1]), cosines, 0.1)
    assert told[0, 5] == 1 and np.isnan(told[1]).all()  # only query 0 may tell


def vectors_of(unit):
    n = len(unit)
    return QueryVectors(
        np.zeros(2, np.float32), np.eye(2, dtype=np.float32), unit, np.zeros((n, 2), np.float32),
        np.ones((n, 2), dtype=bool), 1, 0.1,
    )  # fmt: skip


def test_a_training_query_is_not_told_its_own_judgements():
    unit = np.array([[1, 0], [0, 1], [1, 0]], dtype=np.float32)
    found = {"a": [Ranking(("x",), (1.0,))] * 3}
    asked = candidates(["a"], lists_of(found), 5)
    known = DocumentHistory.of(asked, np.array([1.0, 0.0, 1.0]))
    groups = np.array([0, 1, 0])

    def told(hidden=None):
        found = history_of(known, asked, np.zeros(3), vectors_of(unit), unit, hidden)
        assert found.told.all() and found.columns.shape == (3, len(HISTORY_COLUMNS))
        names = [HISTORY_COLUMNS.index(one) for one in ("mean_gain", "queries")]
        return found.columns[:, names].tolist()

    assert told() == [[pytest.approx(2 / 3), 3]] * 3
    # The first and the third have one text: the second alone tells them, and they tell it.
    assert told(lambda rows: groups[rows, None] == groups) == [[0.0, 1], [1.0, 2], [0.0, 1]]
    nothing = history_of(known, asked, np.zeros(3), None, None, lambda _: np.ones((3, 3), bool))
    assert not nothing.told.any() and np.isnan(nothing.columns[:, :2]).all()
    assert not nothing.columns[:, 2:].any()


class Knows:
    """In place of boosters: a document's gain, written in its first score."""

    def predict(self, columns):
        return columns[:, 1:2]


def test_expected_ndcg_is_that_of_the_expected_gains():
    found = {
        "a": [Ranking(("x", "y", "z"), (0.6, 0.3, 0.1)), Ranking((), ())],
        "b": [Ranking(("z", "x"), (9.0, 8.0)), Ranking(("w",), (1.0,))],
    }
    lists = lists_of(found)
    asked = candidates(["a", "b"], lists, 2)
    model = RelevanceModel(Knows(), DocumentHistory.of(asked, np.zeros(len(asked.rows))), 2, 2)
    unit = np.array([[1, 0], [0, 1]], dtype=np.float32)
    features = np.zeros((2, 200))
    expected = model.expected(["a", "b"], lists, features, vectors_of(unit), unit)
    third = 1 / math.log2(3)
    assert expected[0].tolist() == pytest.approx([0.6 + 0.3 * third, 0.1 + 0.6 * third])
    assert expected[1, 0] == 0.0


@pytest.fixture
def saved(tmp_path):
    """The folder of a probing policy; its boosters are read when they are first asked."""
    probes = ("a", "b")
    relevance = RelevanceModel(Boosters(["gain"], relevance_count(0, probes)), past(), 5, 5)
    boosters = Boosters(["relative", "relative", "mean"], feature_count(0, probes))
    numbers = np.zeros(2), np.ones(2), np.array([1.0, 9.0])
    model = QualityModel(boosters, *numbers, vectors=None, relevance=relevance)
    QualityPolicy("probing", probes, model, None, probes, probe_depth=12).save(tmp_path)
    return tmp_path


def alter(folder, change):
    path = folder / "policy.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")


def test_a_saved_probing_policy_is_read_as_it_was(saved):
    loaded = load_policy(saved)
    assert (loaded.probe_depth, loaded.tau, loaded.model.relevance.top) == (12, 0.1, 5)
    assert loaded.model.relevance.past.gains.tolist() == past().gains.tolist()
    without = {"probes": [], "probe_depth": 0, "relevance": None}
    alter(saved, lambda c: c.update(without))
    assert load_policy(saved).probe_depth == 0  # nothing is looked at


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.update(tau=0), "tau should be a finite number above 0, got 0"),
        (lambda c: c.update(tau=math.nan), "tau should be a finite number above 0, got nan"),
        (lambda c: c.update(probe_depth=3), "probe_depth should be .* at least 10, got 3"),
        (lambda c: c.update(probe_depth=0), "probe_depth should be .* at least 10, got 0"),
        (
            lambda c: c.update(encoder={}, k=0, temperature=-1.0),
            "k should be .* at least 1, got 0; temperature should be .* above 0, got -1.0",
        ),
        (lambda c: c["relevance"].update(k=0), r"\(relevance\) is damaged: k .* got 0"),
        (lambda c: c["relevance"].update(top=4), r"\(relevance\) .* top .* at least 5, got 4"),
        (lambda c: c["relevance"].update(order_weight=math.inf), "order_weight .* got inf"),
        (lambda c: c.update(relevance=[1]), "describes its arms, models or encoder wrongly"),
        (lambda c: c.update(boosters=3), "describes its arms, models or encoder wrongly"),
        (lambda c: c.update(arms=None), "describes its arms, models or encoder wrongly"),
    ],
)
def test_a_damaged_probing_policy_is_refused(saved, change, told):
    alter(saved, change)
    with pytest.raises(RouterError, match=told) as raised:
        load_policy(saved)
    for part in (str(saved / "policy.json"), "copy the whole router folder, or rerun l2r train"):
        assert part in str(raised.value)


def test_another_past_is_refused(saved):
    names = ("documents", "starts", "queries", "gains")
    path = saved / "relevance" / "past.safetensors"
    arrays = {name: getattr(past(), name) for name in names}
    write_arrays(path, {**arrays, "gains": arrays["gains"][::-1]})
    with pytest.raises(RouterError, match=r"past\.safetensors is not the file that training wrote"):
        load_policy(saved)
    path.unlink()
    with pytest.raises(RouterError, match=r"past\.safetensors is absent"):
        load_policy(saved)
