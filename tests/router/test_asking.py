"""Asking for a latency or a quality instead of λ."""

from dataclasses import replace

import pytest

import arms.catalogue
from arms.errors import RouterError
from router import Router
from router.artifact import Defaults, RouterRecord, read_router, update_record, write_router
from router.policies.static import StaticPolicy
from tests.router.fake_index import FakeArm, write_fake_index
from tests.router.test_wishes import curve

ARMS = ("bm25", "text_rerank")
CALIBRATION = curve(False, (0.0, 50.0, 0.7), (0.5, 8.0, 0.65), (1.0, 2.0, 0.4))


@pytest.fixture
def router(tmp_path, monkeypatch):
    write_fake_index(tmp_path / "index", "npl", ARMS)
    monkeypatch.setattr(arms.catalogue, "open_arm", FakeArm.open, raising=False)
    policies = [
        StaticPolicy("router", ARMS, {0.0: "text_rerank", 0.5: "bm25", 1.0: "bm25"}),
        StaticPolicy("other", ARMS, "bm25"),
    ]
    record = RouterRecord(ARMS, Defaults("router"), calibration={"router": CALIBRATION})
    write_router(tmp_path / "router", record, policies)
    return Router.load(tmp_path / "router")


def test_a_latency_becomes_a_lam_and_says_what_is_promised(router):
    choice = router.select("who", max_latency_ms=50)
    assert (choice.arm, choice.lam, choice.lam_used) == ("text_rerank", 0.0, 0.0)
    assert choice.promised == CALIBRATION.points[0]
    choice = router.select("who", max_latency_ms=49)
    assert (choice.arm, choice.lam_used) == ("bm25", 0.5)
    assert str(choice.promised.latency_ms) == "8 [7.2, 8.8]"


def test_a_quality_loss_becomes_a_lam(router):
    assert router.select("who", max_quality_loss=0.05).lam_used == 0.5
    assert router.select("who", max_quality_loss=0).arm == "text_rerank"


def test_many_and_search_take_wishes_too(router):
    choices = router.select_many(["who", "what"], max_latency_ms=10)
    assert [choice.lam_used for choice in choices] == [0.5, 0.5]
    found = router.search("who", max_quality_loss=0.3, k=1)
    assert found.choice.lam_used == 1.0
    assert found.choice.promised.latency_ms.value == 2.0
    assert len(found.ranking.doc_ids) == 1


def test_a_lam_promises_nothing(router):
    assert router.select("who", lam=0.5).promised is None
    assert router.select("who").lam == 0.1


@pytest.mark.parametrize("ask", ["select", "select_many", "search"])
def test_one_wish_at_a_time(router, ask):
    given = ["who"] if ask == "select_many" else "who"
    call = getattr(router, ask)
    with pytest.raises(RouterError, match="got lam and max_latency_ms"):
        call(given, lam=0.1, max_latency_ms=10)
    with pytest.raises(RouterError, match="got max_latency_ms and max_quality_loss"):
        call(given, max_latency_ms=10, max_quality_loss=0.1)
    with pytest.raises(RouterError, match="calibrated with all arms allowed; beside arms, give"):
        call(given, arms=["bm25"], max_latency_ms=10)
    with pytest.raises(RouterError, match="the fastest that this policy gets is 2 ms"):
        call(given, max_latency_ms=1)


def test_a_policy_that_was_never_calibrated_says_how_to(router):
    with pytest.raises(RouterError) as raised:
        router.select("who", policy="other", max_latency_ms=10)
    told = str(raised.value)
    assert "'other' isn't calibrated (calibrated: router)" in told
    assert "run l2r calibrate" in told
    assert "--policy other" in told


def test_a_calibration_is_kept_with_the_router_and_may_be_absent(router, tmp_path):
    record = read_router(tmp_path / "router")
    assert record.calibration == {"router": CALIBRATION}
    update_record(tmp_path / "router", replace(record, calibration={}))
    assert '"calibration"' not in (tmp_path / "router" / "router.json").read_text()
    assert read_router(tmp_path / "router").calibration == {}
