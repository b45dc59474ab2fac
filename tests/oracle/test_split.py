from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.records import Query
from oracle.settings import SplitSettings
from oracle.split import query_groups, split_grouped, text_group

SHARES = SplitSettings()


def named(name: str, texts: list[str]) -> Dataset:
    queries = tuple(Query(f"q{row}", text) for row, text in enumerate(texts))
    return Dataset(name, MemoryCorpus(name, []), queries, {})


def split_queries(suite, shares, seed: int) -> dict:
    return split_grouped(query_groups(suite), shares, seed)


def counts(splits: dict) -> Counter:
    return Counter(splits.values())


def test_shares_are_met_inside_each_dataset():
    suite = [named("a", [f"a {i}" for i in range(200)]), named("b", [f"b {i}" for i in range(50)])]
    splits = split_queries(suite, SHARES, seed=1)
    assert counts({k: v for k, v in splits.items() if k[0] == "a"}) == {
        "train": 160, "val": 20, "test": 20,
    }  # fmt: skip
    assert counts({k: v for k, v in splits.items() if k[0] == "b"}) == {
        "train": 40, "val": 5, "test": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, {}),
        (1, {"train": 1}),
        (2, {"train": 1, "test": 1}),
        (3, {"train": 1, "val": 1, "test": 1}),
        (9, {"train": 7, "val": 1, "test": 1}),
    ],
)
def test_tiny_datasets(n, expected):
    assert counts(split_queries([named("a", [f"t{i}" for i in range(n)])], SHARES, 3)) == expected


def test_case_and_white_space_make_no_other_question():
    assert text_group("What  is\tBM25? ") == text_group("what is bm25?")
    assert text_group("Straße") == text_group("STRASSE")
    assert text_group("what is bm25") != text_group("what is bm25?")


def test_one_question_in_two_datasets_is_on_one_side():
    shared = [f"Shared {i}" for i in range(30)]
    suite = [named("b", [s.upper() for s in shared] + ["only b"]), named("a", shared)]
    splits = split_queries(suite, SHARES, seed=0)
    assert all(splits["a", f"q{i}"] == splits["b", f"q{i}"] for i in range(30))


def test_a_dataset_whose_groups_are_all_large_still_has_a_test_query():
    splits = split_queries([named("a", ["x"] * 6 + ["y"] * 4)], SHARES, seed=0)
    assert counts(splits) == {"train": 6, "test": 4}


def test_seed_decides_and_other_datasets_do_not():
    one = named("a", [f"a {i}" for i in range(100)])
    other = named("0", [f"0 {i}" for i in range(40)])
    alone = split_queries([one], SHARES, seed=7)
    together = split_queries([other, one], SHARES, seed=7)
    assert alone == {key: split for key, split in together.items() if key[0] == "a"}
    assert alone == split_queries([one], SHARES, seed=7)
    assert alone != split_queries([one], SHARES, seed=8)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 30), max_size=40), min_size=1, max_size=3), st.integers(0, 5)
)
def test_groups_never_straddle(suites, seed):
    suite = [named(f"s{i}", [f"text {t}" for t in texts]) for i, texts in enumerate(suites)]
    splits = split_queries(suite, SHARES, seed)
    assert len(splits) == sum(len(one.queries) for one in suite)
    sides: dict[str, set[str]] = {}
    for one in suite:
        for query in one.queries:
            sides.setdefault(query.text, set()).add(splits[one.name, query.query_id])
    assert all(len(found) == 1 for found in sides.values())


def grouped(name: str, members: list[tuple[str, str | None]]) -> Dataset:
    """A dataset of (text, split group) pairs."""
    queries = tuple(
        Query(f"q{row}", text, {"split_group": group} if group else {})
        for row, (text, group) in enumerate(members)
    )
    return Dataset(name, MemoryCorpus(name, []), queries, {})


def test_a_named_group_stays_together():
    suite = [grouped("a", [(f"text {row}", f"style {row % 5}") for row in range(100)])]
    splits = split_queries(suite, SplitSettings(train=0.6, val=0.2, test=0.2), seed=42)
    assert counts(splits) == {"train": 60, "val": 20, "test": 20}
    for style in range(5):
        assert len({splits["a", f"q{row}"] for row in range(style, 100, 5)}) == 1


def test_equal_texts_stay_together_even_where_their_groups_differ():
    first = grouped("a", [("Same", "x"), ("other", "x"), ("third", "y"), ("same ", "y")])
    second = grouped("b", [("SAME", None), ("fifth", "x"), ("sixth", None)])
    groups = query_groups([second, first])
    assert groups["a"] == {"q0": "a/x", "q1": "a/x", "q2": "a/y", "q3": "a/x"}
    assert groups["b"] == {"q0": "a/x", "q1": "b/x", "q2": text_group("sixth")}


def test_shares_must_sum_to_one():
    with pytest.raises(ValueError, match="must sum to 1, got"):
        SplitSettings(train=0.7)
