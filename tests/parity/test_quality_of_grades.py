"""The quality of rankings known by their grades against that of the rankings themselves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arms.errors import LabelsError, SettingsError
from arms.records import Ranking
from oracle.quality import follows_from_grades, quality_of_grades, query_quality

MEASURES = ("nDCG@5", "nDCG@10", "nDCG", "RR@5", "RR", "R@5", "P@5", "P(rel=2)@5", "AP", "AP@5",
            "Success@1", "Success@5")  # fmt: skip
DOCUMENTS = [f"doc {number}" for number in range(14)]
JUDGED = st.dictionaries(st.sampled_from(DOCUMENTS), st.integers(-2, 4), min_size=1)
RANKED = st.lists(st.sampled_from(DOCUMENTS), unique=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(JUDGED, RANKED), max_size=8))
def test_equals_the_quality_of_the_judged_rankings(cases):
    qrels = {f"q{number}": judged for number, (judged, _) in enumerate(cases)}
    rankings = {
        f"q{number}": Ranking(tuple(ranked), (0.0,) * len(ranked))
        for number, (_, ranked) in enumerate(cases)
    }
    found = quality_of_grades(
        [[judged.get(doc_id, 0) for doc_id in ranked] for judged, ranked in cases],
        [sorted((one for one in judged.values() if one > 0), reverse=True) for judged, _ in cases],
        MEASURES,
    )
    for measure, values in query_quality(qrels, rankings, MEASURES).items():
        assert found[measure].dtype == np.float64
        assert found[measure].tolist() == [values[query_id] for query_id in rankings]


def test_documents_that_the_ranking_lacks_count_in_the_ideal():
    found = quality_of_grades([[0, 1], [0, 1], [2, 0]], [[1], [2, 1], [2]], ("nDCG@5", "R@5"))
    discount = 1 / np.log2(3)
    assert found["nDCG@5"] == pytest.approx([discount, discount / (2 + discount), 1.0])
    assert found["R@5"].tolist() == [1.0, 0.5, 1.0]


def test_nothing_ranked_and_nothing_relevant_are_zero():
    found = quality_of_grades([[], [], [0, -1]], [[1], [], []], MEASURES)
    assert {measure: values.tolist() for measure, values in found.items()} == {
        measure: [0.0, 0.0, 0.0] for measure in MEASURES
    }
    assert quality_of_grades([], [], ["AP"])["AP"].shape == (0,)


def test_every_kind_of_fault_is_named():
    with pytest.raises(LabelsError) as caught:
        quality_of_grades([[1, 1], [2], [1]], [[1], [2, 0], [1]], ["nDCG@5"])
    message = str(caught.value)
    assert "in 1 of 3 rankings' lists some aren't, e.g. in list 1: [2, 0]" in message
    assert "1 of 3 rankings hold grades above 0 that their query doesn't have" in message
    assert "ranking 0: [1, 1] where the relevant grades are [1]" in message
    with pytest.raises(LabelsError, match="2 rankings and 1 lists"):
        quality_of_grades([[1], [1]], [[1]], ["nDCG@5"])


def test_measures_that_tell_unjudged_from_not_relevant_are_refused():
    refused = ("Judged@5", "Bpref", "P(judged_only=True)@5", "R(rel=0)@5", "nDCG(gains={0:1})@5",
               "P(rel='x')@5", "nDCG(gains=5)@5")  # fmt: skip
    assert not any(map(follows_from_grades, refused))
    assert all(map(follows_from_grades, (*MEASURES, "nDCG(gains={1:3})@5")))
    with pytest.raises(SettingsError, match=r"Judged@5, Bpref.*known are AP, P, R, RR"):
        quality_of_grades([[1]], [[1]], ["nDCG@5", "Judged@5", "Bpref"])
