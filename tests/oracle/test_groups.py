from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.records import Query
from oracle.groups import (
    STRENGTHS,
    Groupings,
    group_queries,
    groups_in_force,
    split_entry,
    split_rows,
    suite_groupings,
)
from oracle.settings import SplitSettings
from oracle.split import text_group

REVENUE = "what was the total revenue of the whole company and all its subsidiaries in the year {}?"
OTHER = (
    "who wrote the annual report?",
    "how tall is the mountain behind the house",
    "names of rivers flowing north",
    "an entirely different matter",
    "best recipe for rye bread",
)


def made(texts, relevant, datasets=None, groups=None) -> Groupings:
    """Groups of queries whose query groups are a, b, c, … unless given."""
    count = len(relevant)
    names = list("abcdefghijklmnopqrstuvwxyz"[:count]) if groups is None else groups
    return group_queries(datasets or ["d"] * count, names, texts, relevant)


def test_near_duplicates_are_joined_where_they_share_a_relevant_document():
    texts = [REVENUE.format(2018), REVENUE.format(2019), REVENUE.format(2020), OTHER[0]]
    found = made(texts, [["x", "y"], ["y"], ["z"], ["y"]])
    assert found.query.tolist() == ["a", "b", "c", "d"]
    assert found.near_duplicate.tolist() == ["a", "a", "c", "d"]
    assert found.document.tolist() == ["a", "a", "c", "a"]


def test_components_are_joined_through_others():
    found = made(list(OTHER), [["x"], ["x", "y"], ["y"], ["z"], []])
    assert found.near_duplicate.tolist() == ["a", "b", "c", "d", "e"]
    assert found.document.tolist() == ["a", "a", "a", "d", "e"]


def test_without_judgements_the_text_alone_decides_and_documents_are_unknown():
    texts = [REVENUE.format(2018), REVENUE.format(2019), OTHER[0]]
    for relevant in (None, [None, None, None]):
        found = group_queries(["d"] * 3, ["a", "b", "c"], texts, relevant)
        assert found.near_duplicate.tolist() == ["a", "a", "c"]
        assert found.document.tolist() == [None, None, None]


def test_without_texts_documents_still_join():
    found = made(None, [["x"], ["y"], ["x"]])
    assert found.near_duplicate.tolist() == [None, None, None]
    assert found.document.tolist() == ["a", "b", "a"]


def test_the_same_document_id_in_two_datasets_is_two_documents():
    texts = [REVENUE.format(2018), REVENUE.format(2019)]
    found = made(texts, [["x"], ["x"]], datasets=["d", "e"])
    assert found.near_duplicate.tolist() == ["a", "b"]
    assert found.document.tolist() == ["a", "b"]


def test_named_groups_are_the_floor_of_every_strength():
    found = made(list(OTHER), [["v"], ["w"], ["w"], ["y"], ["z"]], groups=list("aabcd"))
    assert found.near_duplicate.tolist() == ["a", "a", "b", "c", "d"]
    assert found.document.tolist() == ["a", "a", "a", "c", "d"]


def test_equal_texts_share_the_documents_of_all_their_queries():
    texts = [REVENUE.format(2018), REVENUE.format(2018).upper(), REVENUE.format(2019)]
    found = made(texts, [["x"], ["y"], ["y"]], groups=["a", "a", "b"])
    assert found.near_duplicate.tolist() == ["a", "a", "a"]


def test_equal_texts_stay_together_across_datasets_in_force():
    # a and c share a document in d; b is asked in both datasets; so is a.
    found = made(
        [OTHER[0], OTHER[1], OTHER[2], OTHER[0], OTHER[3], OTHER[4]],
        [["x"], ["y"], ["x"], ["1"], ["1"], ["2"]],
        datasets=["d", "d", "d", "e", "e", "e"],
        groups=["a", "b", "c", "a", "k", "m"],
    )
    assert found.document.tolist() == ["a", "b", "a", "a", "a", "m"]
    force = groups_in_force(found, "near_duplicate")
    assert force.groups.tolist() == ["a", "b", "c", "a", "k", "m"]
    assert not force.fallbacks


def unjoined(count: int) -> list[str]:
    return [f"g{n:02d}" for n in range(count)]


def columns(query, near, document, datasets=None) -> Groupings:
    def array(values):
        return np.array(values, dtype=object)

    return Groupings(
        array(datasets or ["d"] * len(query)), array(query), array(near), array(document)
    )


def test_a_component_that_swallows_its_dataset_makes_it_fall_back():
    query = unjoined(10)
    near = ["g00", "g00", *query[2:]]
    document = ["g00"] * 6 + query[6:]
    force = groups_in_force(columns(query, near, document), "document")
    assert force.groups.tolist() == near
    assert force.used("d") == "near_duplicate"
    assert split_entry(force) == {
        "by": "document",
        "fallbacks": {
            "d": {
                "used": "near_duplicate",
                "because": "one document group holds 60% of its queries",
            }
        },
    }
    half = ["g00"] * 5 + query[5:]
    assert groups_in_force(columns(query, near, half), "document").groups.tolist() == half


def test_near_duplicates_that_swallow_a_dataset_fall_back_to_equal_texts():
    query, joined = unjoined(10), ["g00"] * 9 + ["g09"]
    force = groups_in_force(columns(query, joined, joined), "document")
    assert force.groups.tolist() == query
    assert force.used("d") == "query"
    assert force.fallbacks["d"].because == (
        "one document group holds 90% of its queries; "
        "one near-duplicate group holds 90% of its queries"
    )


def test_one_dataset_falls_back_and_the_other_does_not():
    query = unjoined(8)
    document = ["g00"] * 4 + ["g04", "g04", "g06", "g07"]
    found = columns(query, query, document, ["d"] * 4 + ["e"] * 4)
    force = groups_in_force(found, "document")
    assert force.groups.tolist() == ["g00", "g01", "g02", "g03", "g04", "g04", "g06", "g07"]
    assert set(force.fallbacks) == {"d"}


def test_unknown_groups_fall_back():
    query, none = unjoined(4), [None] * 4
    force = groups_in_force(columns(query, query, none), "document")
    assert (force.used("d"), force.fallbacks["d"].because) == (
        "near_duplicate",
        "its judgements are unknown",
    )
    force = groups_in_force(columns(query, none, none), "document")
    assert (force.used("d"), force.fallbacks["d"].because) == (
        "query",
        "its judgements are unknown; its texts are unknown",
    )
    assert groups_in_force(columns(query, none, none), "query").fallbacks == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.sets(st.integers(0, 9)))))
def test_in_force_nothing_that_a_stronger_split_keeps_together_is_torn_by_itself(queries):
    """Every strength keeps query groups whole, and train, val and test keep its groups whole."""
    datasets = [f"d{dataset}" for dataset, _, _ in queries]
    groups = [f"g{group}" for _, group, _ in queries]
    found = group_queries(datasets, groups, None, [sorted(map(str, one)) for *_, one in queries])
    for by in STRENGTHS:
        force = groups_in_force(found, by)
        assert len({*zip(groups, force.groups, strict=True)}) == len(set(groups))
        splits = split_rows(datasets, force, SplitSettings(), seed=1)
        assert len({*zip(force.groups, splits, strict=True)}) == len(set(force.groups))
        if by == "document":
            together = {}
            for row, (dataset, document) in enumerate(zip(datasets, found.document, strict=True)):
                if force.used(dataset) == "document":
                    expected = together.setdefault((dataset, document), force.groups[row])
                    assert expected == force.groups[row]


def test_a_suite_is_grouped_by_dataset_then_query_id():
    def dataset(name: str, queries: list[tuple[str, str]], qrels: dict) -> Dataset:
        return Dataset(
            name, MemoryCorpus(name, []), tuple(Query(*one, {}) for one in queries), qrels
        )

    suite = [
        dataset(
            "z",
            [("q2", OTHER[0]), ("q10", OTHER[1])],
            {"q2": {"x": 1, "y": 0}, "q10": {"x": 2, "y": 1}},
        ),
        dataset("a", [("q1", OTHER[0]), ("q0", OTHER[2])], {"q1": {"y": 1}, "q0": {"x": 1}}),
    ]
    found = suite_groupings(suite)
    assert found.datasets.tolist() == ["a", "a", "z", "z"]
    texts = [text_group(OTHER[n]) for n in (2, 0, 1, 0)]
    assert found.query.tolist() == texts
    assert found.document.tolist() == [*texts[:2], min(texts[2:]), min(texts[2:])]


def test_groups_do_not_depend_on_the_order_of_rows():
    texts = [REVENUE.format(year) for year in range(2010, 2016)] + list(OTHER)
    relevant = [["x"], ["x"], ["y"], ["x"], ["y"], ["z"], ["z"], ["u"], ["u"], [], ["y"]]
    groups = [text_group(text) for text in texts]
    found = made(texts, relevant, groups=groups)
    order = np.random.default_rng(3).permutation(len(texts))
    again = group_queries(
        ["d"] * len(texts),
        [groups[row] for row in order],
        [texts[row] for row in order],
        [relevant[row] for row in order],
    )
    assert again.near_duplicate.tolist() == found.near_duplicate[order].tolist()
    assert again.document.tolist() == found.document[order].tolist()


SUITE = Path(__file__).parents[2] / "benchmarks" / "labels" / "text-suite"


@pytest.mark.parametrize(
    ("by", "groups", "largest"), [("query", 6294, {}), ("near_duplicate", 5915, {})]
)
def test_groups_of_the_text_suite(by, groups, largest):
    from oracle.labels import read_labels

    force = groups_in_force(read_labels(SUITE).groupings, by)
    assert len(set(force.groups)) == groups
    assert not force.fallbacks


def test_nine_of_twelve_collections_can_be_split_by_document():
    """An outside audit found eight: it left out one whose largest group holds 22 % of it too."""
    from oracle.labels import read_labels

    labels = read_labels(SUITE)
    force = groups_in_force(labels.groupings, "document")
    assert set(force.fallbacks) == {"cranfield", "limit-small", "npl"}
    assert len(set(force.groups)) == 3279
    disjoint = ~np.isin(labels.datasets, list(force.fallbacks))
    assert disjoint.sum() == 5583
    documents: dict = {}
    for dataset, group, relevant in zip(
        labels.datasets[disjoint],
        force.groups[disjoint],
        labels.relevant_ids[disjoint],
        strict=True,
    ):
        for document in relevant:
            assert documents.setdefault((dataset, document), group) == group
