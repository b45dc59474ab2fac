"""A warning where the index knows none of most queries' words."""

import logging

import pytest

from arms.corpora.corpus import Dataset, MemoryCorpus
from arms.records import Document, Query
from arms.settings import ArmSettings
from oracle.runner import build_indexes

CORPUS = MemoryCorpus("zoo", [Document("a", "", "cats and mice"), Document("b", "", "dogs")])


def dataset(*texts: str) -> Dataset:
    queries = tuple(Query(f"q{number}", text) for number, text in enumerate(texts))
    return Dataset("zoo", CORPUS, queries, {query.query_id: {"a": 1} for query in queries})


@pytest.mark.parametrize(
    ("texts", "warned"),
    [(("猫", "ネズミ", "cats"), True), (("猫", "dogs", "cats"), False), (("猫", "cats"), False)],
)
def test_most_queries_without_a_known_term(tmp_path, caplog, texts, warned):
    with caplog.at_level(logging.WARNING):
        build_indexes([dataset(*texts)], [ArmSettings(arm="bm25")], tmp_path)
    told = [one for one in caplog.messages if "has no term of" in one]
    assert len(told) == int(warned)
    if warned:
        assert "dataset 'zoo': bm25 has no term of 2 of 3 queries" in told[0]
        assert "'猫'" in told[0]


def test_arms_that_do_not_go_by_words_are_left_alone(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        build_indexes([dataset("猫")], [ArmSettings(arm="none")], tmp_path)
    assert caplog.messages == []
