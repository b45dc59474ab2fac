import pytest

from arms.arm import ArmSpec
from arms.records import Ranking
from oracle.outcome import rank_queries
from tests.oracle.fakes import PipelineArm

TEXTS = ["one", "two poison", "three", "four none", "five"]


def arm(**options) -> PipelineArm:
    return PipelineArm(ArmSpec("fake", options=options), ["a", "b", "c"])


def test_statuses_and_rankings_do_not_depend_on_the_batch_size():
    options = {"fail_on": "poison", "empty_on": "none"}
    expected = rank_queries(arm(**options), TEXTS, 2, 1, None)
    assert [one.status for one in expected] == ["ok", "error", "ok", "empty", "ok"]
    assert expected[1].message == "RuntimeError: poisoned by poison"
    assert expected[1].ranking == Ranking((), ())
    assert all(len(expected[row].ranking.doc_ids) == 2 for row in (0, 2, 4))
    for batch_size in (2, 3, 5, 64):
        assert rank_queries(arm(**options), TEXTS, 2, batch_size, None) == expected


def test_only_the_failed_batch_falls_back_to_single_queries():
    fake = arm(fail_on="poison")
    rank_queries(fake, TEXTS, 2, 3, None)
    assert fake.calls == [tuple(TEXTS[:3]), *((text,) for text in TEXTS[:3]), tuple(TEXTS[3:])]


def test_a_query_that_hangs_is_a_timeout_of_its_own():
    found = rank_queries(arm(hang_on="poison"), TEXTS[:3], 2, 3, 0.1)
    assert [one.status for one in found] == ["ok", "timeout", "ok"]
    assert found[1].message == "took longer than 0.1 s"


def test_an_empty_query_is_an_error_of_its_own():
    assert [one.status for one in rank_queries(arm(), ["a", " \n"], 2, 8, None)] == ["ok", "error"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "expected a ranking for each of 1 queries, got 0"),
        ([Ranking(("a", "b", "c"), (3.0, 2.0, 1.0))], "expected at most 2 documents, got 3"),
        ([Ranking(("a", "a"), (2.0, 1.0))], "one document twice"),
    ],
)
def test_an_arm_that_breaks_its_contract_is_an_error(monkeypatch, wrong, message):
    fake = arm()
    monkeypatch.setattr(fake, "rank_batch", lambda queries, k, clock: wrong)
    (found,) = rank_queries(fake, ["a"], 2, 8, None)
    assert found.status == "error"
    assert message in found.message


def test_no_queries():
    assert rank_queries(arm(), [], 5, 8, None) == []
