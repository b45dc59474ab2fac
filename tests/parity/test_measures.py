"""Quality against values computed by hand and against ir-measures called directly."""

import math
import random

import ir_measures
import pytest

from arms.errors import SettingsError
from arms.records import Ranking
from oracle.quality import measure_names, query_quality

DEFAULT = ("nDCG@5", "RR@5", "R@5")


def ranked(*doc_ids: str, scores: tuple[float, ...] | None = None) -> Ranking:
    return Ranking(doc_ids, scores or tuple(float(len(doc_ids) - i) for i in range(len(doc_ids))))


def only(qrels: dict, ranking: Ranking, measures=DEFAULT) -> dict[str, float]:
    found = query_quality({"q": qrels}, {"q": ranking}, measures)
    return {measure: values["q"] for measure, values in found.items()}


def test_graded_judgements_by_hand():
    # DCG = 1/log2(2) + 0 + 3/log2(4); ideal = 3/log2(2) + 2/log2(3) + 1/log2(4): linear gain.
    found = only({"d1": 3, "d2": 1, "d3": 0, "d4": 2}, ranked("d2", "d3", "d1"))
    assert found["nDCG@5"] == pytest.approx(2.5 / (3 + 2 / math.log2(3) + 0.5))
    assert found["RR@5"] == 1.0
    assert found["R@5"] == pytest.approx(2 / 3)


def test_cut_off_and_first_relevant_rank_by_hand():
    found = only({"x": 1, "y": 1}, ranked("a", "b", "x", "c", "d", "y"))
    assert found["RR@5"] == pytest.approx(1 / 3)
    assert found["R@5"] == 0.5
    assert found["nDCG@5"] == pytest.approx(0.5 / (1 + 1 / math.log2(3)))
    assert only({"y": 1}, ranked("a", "b", "c", "d", "e", "y")) == dict.fromkeys(DEFAULT, 0.0)


def test_more_relevant_documents_than_the_cut_off():
    qrels = {f"d{i}": 1 for i in range(10)}
    found = only(qrels, ranked(*(f"d{i}" for i in range(5))))
    assert found == {"nDCG@5": pytest.approx(1.0), "RR@5": 1.0, "R@5": 0.5}


def test_a_query_that_found_nothing_has_zero_and_one_that_is_missing_has_no_value():
    qrels = {"empty": {"d": 1}, "missing": {"d": 1}, "hit": {"d": 1}}
    found = query_quality(qrels, {"empty": Ranking((), ()), "hit": ranked("d")}, DEFAULT)
    for measure in DEFAULT:
        assert found[measure] == {"empty": 0.0, "hit": 1.0}


def test_nothing_relevant_is_zero_for_every_ranking():
    assert only({"d": 0}, ranked("d", "e")) == dict.fromkeys(DEFAULT, 0.0)


def test_grades_below_zero_count_as_not_relevant():
    # Given them as they are, trec_eval crashes on nDCG here, or never returns.
    judged = {f"d{number}": grade for number, grade in enumerate((-2, 3, -1, 0, 1, -2))}
    clipped = {doc_id: max(grade, 0) for doc_id, grade in judged.items()}
    measures = (*DEFAULT, "nDCG", "AP", "P@5")
    for ranking in (ranked("d0", "d1", "d2", "d4"), ranked("d5", "d2"), ranked("x", "d0", "d3")):
        assert only(judged, ranking, measures) == only(clipped, ranking, measures)
    assert only(judged, ranked("d0", "d1"), measures)["RR@5"] == 0.5


def test_no_rankings_and_no_judgements():
    assert query_quality({}, {}, DEFAULT) == {measure: {} for measure in DEFAULT}
    with pytest.raises(SettingsError, match="1 queries have no judgement"):
        query_quality({"q": {}}, {"q": ranked("d")}, DEFAULT)


def test_tied_scores_count_in_our_order_where_ir_measures_has_two_others():
    tied = ranked("a", "b", "c", scores=(1.0, 1.0, 1.0))  # ties by document id
    assert only({"a": 1}, tied) == {"nDCG@5": 1.0, "RR@5": 1.0, "R@5": 1.0}
    assert only({"c": 1}, tied, ["RR@5"])["RR@5"] == pytest.approx(1 / 3)
    # The trap itself: given the arm's scores, nDCG sees c, b, a and RR sees a, b, c.
    measures = [ir_measures.parse_measure(name) for name in ("nDCG@5", "RR@5")]
    naive = {
        str(one.measure): one.value
        for one in ir_measures.iter_calc(
            measures, {"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}
        )
    }
    assert naive == {"nDCG@5": pytest.approx(0.5), "RR@5": 1.0}


def test_equals_ir_measures_on_distinct_scores_whatever_the_order_of_queries():
    draw = random.Random(5)
    documents = [f"doc {i}" for i in range(60)]
    qrels = {
        f"q{i}": {doc: draw.randint(0, 4) for doc in draw.sample(documents, draw.randint(1, 12))}
        for i in range(200)
    }
    rankings, run = {}, {}
    for query_id in sorted(qrels, reverse=True):
        found = draw.sample(documents, draw.randint(0, 20))
        rankings[query_id] = ranked(*found)
        run[query_id] = {doc: 20.0 - rank for rank, doc in enumerate(found)}
    names = (*DEFAULT, "P@3", "AP", "Success@1", "nDCG", "P(rel=2)@5", "ERR@5")
    ours = query_quality(qrels, rankings, measure_names(names, k=20))
    parsed = [ir_measures.parse_measure(name) for name in names if name != "ERR@5"]
    theirs = {(str(m.measure), m.query_id): m.value for m in ir_measures.iter_calc(
        parsed, qrels, run)}  # fmt: skip
    assert len(theirs) == 200 * 8
    for (measure, query_id), value in theirs.items():
        assert ours[measure][query_id] == pytest.approx(value, abs=1e-12)
    assert any(ours["ERR@5"].values())
    alone = query_quality(qrels, {"q7": rankings["q7"]}, DEFAULT)
    assert all(alone[measure]["q7"] == ours[measure]["q7"] for measure in DEFAULT)


def test_names_are_written_as_ir_measures_writes_them():
    assert measure_names(("MRR@5", "P(rel=2)@5", "nDCG"), k=20) == ("RR@5", "P(rel=2)@5", "nDCG")


def test_every_unusable_measure_is_named_at_once():
    with pytest.raises(SettingsError) as caught:
        measure_names(
            ("nDCG@50", "P@0", "foo@5", "NumRet", "RR@5", "MRR@5", "RBP", "", "nDCG@x"), k=20
        )
    message = str(caught.value)
    assert "measure nDCG@50 looks at 50 documents, 20 are kept; set k: 50" in message
    assert "measure P@0 looks at no document" in message
    assert "knows no measure 'foo@5'" in message
    assert "quality must lie in [0, 1]; NumRet has the value 3" in message
    assert "RR@5 is given twice" in message
    assert "RBP can't be computed here" in message
    assert "knows no measure 'nDCG@x'" in message
    assert len(message.splitlines()) >= 7
