from pathlib import Path

import numpy as np
import pytest

from oracle.groups import STRENGTHS, Groupings
from oracle.labels import read_labels
from oracle.split_leaks import LeakCounts, leak_sentence, leaks_of, split_leaks
from training.folds import fold_of_queries
from training.table import routing_table


def groupings(query, near=None, document=None, datasets=None) -> Groupings:
    def array(values):
        return np.array([None] * len(query) if values is None else values, dtype=object)

    return Groupings(array(datasets or ["d"] * len(query)), array(query), array(near), document)


def test_each_kind_of_leak_is_found_where_it_was_planted():
    #         same text    near-duplicates  a shared document  nothing
    query = ["a", "a", "b", "c", "d", "e", "f", "g"]
    near = ["a", "a", "b", "b", "d", "e", "f", "f"]
    relevant = [["1"], ["2"], ["3"], ["4"], ["5", "6"], ["6"], ["7"], ["8"]]
    sides = ["train", "test", "train", "test", "test", "train", "test", "test"]
    found = split_leaks(groupings(query, near), relevant, sides)
    assert np.flatnonzero(found.exact).tolist() == [0, 1]
    assert np.flatnonzero(found.near_duplicate).tolist() == [2, 3]
    assert np.flatnonzero(found.shared_document).tolist() == [4, 5]
    test = np.array(sides) == "test"
    assert found.counts(test) == LeakCounts(5, 1, 1, 1)
    assert found.counts() == LeakCounts(8, 2, 2, 2)


def test_a_near_duplicate_is_of_another_text_and_on_another_side():
    # a and b are near-duplicates: two queries of text a, one of b.
    near = groupings(["a", "a", "b"], ["a", "a", "a"])
    found = split_leaks(near, None, ["train", "test", "train"])
    assert found.near_duplicate.tolist() == [False, True, True]
    found = split_leaks(near, None, ["train", "test", "test"])
    assert found.near_duplicate.tolist() == [True, False, True]
    assert not split_leaks(near, None, ["test"] * 3).near_duplicate.any()


def test_datasets_share_texts_but_no_documents():
    found = split_leaks(
        groupings(["a", "a", "b"], ["a", "a", "b"], datasets=["d", "e", "e"]),
        [["x"], ["y"], ["x"]],
        ["train", "test", "test"],
    )
    assert found.exact.tolist() == [True, True, False]
    assert not found.near_duplicate.any()
    assert not found.shared_document.any()


def test_what_is_unknown_is_not_called_clean():
    counts = split_leaks(groupings(["a", "b"]), None, ["train", "test"]).counts()
    assert counts == LeakCounts(2, 0, None, None)
    assert leak_sentence(counts, "queries") == (
        "Of 2 queries, 0 have a query of the same text on another side, near-duplicates can't be "
        "told (no texts or judgements are known), and shared relevant documents can't be told (no "
        "judgements are known)."
    )
    assert "3 share a relevant document" in leak_sentence(LeakCounts(9, 1, 2, 3), "test queries")


def test_with_texts_only_direct_near_duplicates_count():
    asked = "what was the total revenue of the whole company and all its subsidiaries in {}?"
    texts = [asked.format("2018"), asked.format("2019"), "who wrote the annual report?"]
    texts += ["how tall is the mountain", asked.format("2017").upper()]
    query, relevant = ["a", "b", "c", "d", "e"], [["x"], ["x", "y"], ["x"], ["z"], ["z"]]
    joined = groupings(query, ["a", "a", "a", "d", "e"])
    sides = ["train", "test", "test", "test", "train"]
    assert split_leaks(joined, relevant, sides).near_duplicate.tolist() == [
        True, True, True, False, False,
    ]  # fmt: skip
    assert split_leaks(joined, relevant, sides, texts).near_duplicate.tolist() == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert split_leaks(joined, None, sides, texts).near_duplicate.tolist() == [
        True, True, False, False, True,
    ]  # fmt: skip


ROOT = Path(__file__).parents[2]


def suite_folds(by: str):
    labels = read_labels(ROOT / "benchmarks" / "labels" / "text-suite")
    texts = {(d, q): "" for d, q in zip(labels.datasets, labels.query_ids, strict=True)}
    table = routing_table(labels, labels.router_arms, texts, split=by)
    return labels, fold_of_queries(table, 5, 42).tolist()


def test_leaks_of_the_text_suite_in_folds_of_each_strength():
    """73 % share a relevant document with a query of another fold, as an outside audit found."""
    found = {by: leaks_of(*suite_folds(by)) for by in STRENGTHS}
    assert found["query"].counts() == LeakCounts(6330, 0, 587, 4630)
    assert found["near_duplicate"].counts().near_duplicate == 0
    labels = suite_folds("document")[0]
    disjoint = ~np.isin(labels.datasets, ["cranfield", "limit-small", "npl"])
    assert found["document"].counts(disjoint) == LeakCounts(5583, 0, 0, 0)


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT.parent / "shared/data/scifact").is_dir(), reason="no collections")
def test_an_outside_audit_counts_the_same_near_duplicates():
    """Of 6,330 queries 583 have one in another fold: 30.5 % of scifact's, 17.5 % of tatqa's."""
    import l2r

    labels, folds = suite_folds("query")
    text_of = {
        (dataset.name, query.query_id): query.text
        for dataset in l2r.read_datasets(l2r.read_run(ROOT / "training/recipes/text-suite.yaml"))
        for query in dataset.queries
    }
    texts = [text_of[key] for key in zip(labels.datasets, labels.query_ids, strict=True)]
    found = split_leaks(labels.groupings, labels.relevant_ids.tolist(), folds, texts)
    assert found.counts() == LeakCounts(6330, 0, 583, 4630)
    for dataset, share in (("scifact", "30.5"), ("tatqa", "17.5")):
        mine = found.near_duplicate[labels.datasets == dataset]
        assert f"{100 * mine.mean():.1f}" == share
