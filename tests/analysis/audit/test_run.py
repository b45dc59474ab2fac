"""Planted faults are named, each of them; a sound release has none."""

import pytest

import l2r
from analysis.audit.run import CLEAN, audit
from tests.analysis.audit.audited import Audited


def kinds(found):
    return [one.check for one in found.objections]


@pytest.fixture
def sound(tmp_path):
    made = Audited()
    labels = made.write(tmp_path / "labels")
    router = made.decisions(tmp_path / "router", knows=lambda row: row % 4 < 2)
    return labels, router


def test_sound_labels_and_an_honest_router_have_no_objection(sound):
    found = audit(*sound)
    assert found.objections == ()
    told = " ".join(found.findings.remarks)
    assert "480 rankings" in told and "all agree" in told
    assert "Every latency was timed" in told
    assert "40 of 80 held-out queries share a relevant document" in told


def test_labels_alone(sound):
    assert audit(sound[0]).objections == ()


def test_a_wrong_measure(tmp_path):
    labels = Audited().write(tmp_path / "labels", wrong={(4, "fast")})
    (objection,) = audit(labels).objections
    assert objection.check == "measures"
    assert "q0004" in objection.sentence and "nDCG@5" in objection.sentence


def test_a_question_on_both_sides(tmp_path):
    made = Audited()
    made.texts[0] = made.texts[1].upper()
    (objection,) = audit(made.write(tmp_path / "labels")).objections
    assert objection.check == "splits"
    assert "1 of 80 held-out queries have a query of equal text" in objection.sentence


def test_a_nearly_equal_question_about_the_same_document(tmp_path):
    made = Audited()
    made.texts[6] = made.texts[7].replace("number", "numbers")  # they share d7
    made.texts[3] = made.texts[4].replace("number", "numbers")  # about another document
    (objection,) = audit(made.write(tmp_path / "labels")).objections
    assert objection.check == "splits"
    assert "1 of 80 held-out queries have a nearly equal query" in objection.sentence


def test_modelled_latencies(tmp_path):
    made = Audited()
    labels = made.write(tmp_path / "labels", modelled={(0, "slow"), (1, "slow")})
    router = made.decisions(tmp_path / "router", knows=lambda row: row % 4 < 2)
    (objection,) = audit(labels, router).objections
    assert objection.check == "latency"
    assert "0.4 % of the latencies are modelled" in objection.sentence
    assert "79 of 80 evaluated queries were timed" in objection.sentence


def test_a_win_on_seen_documents_alone_is_named(tmp_path):
    made = Audited()
    # odd test queries 3, 15, 27, … share their document with a training query; even ones no longer
    made.relevant = [f"d{row}" for row in range(made.n)]
    for row in range(3, made.n - 1, 12):
        made.relevant[row] = f"d{row + 1}"
    labels = made.write(tmp_path / "labels")
    router = made.decisions(tmp_path / "router", knows=lambda row: row % 12 == 3)
    found = audit(labels, router)
    assert kinds(found) == ["documents"]
    assert "relevant to training queries" in found.objections[0].sentence


def test_a_default_behind_the_best_arm(tmp_path):
    made = Audited()
    labels = made.write(tmp_path / "labels")
    router = made.decisions(tmp_path / "router", knows=lambda row: False, overhead_ms=2.0)
    found = audit(labels, router)
    assert kinds(found) == ["baselines"]
    assert "At λ = 0.1 the default router is behind" in found.objections[0].sentence


def test_the_command(sound, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        l2r.main(["audit", *map(str, sound), "--output", str(tmp_path / "audit")])
    assert stop.value.code == 0
    assert CLEAN in capsys.readouterr().out
    text = (tmp_path / "audit" / "audit.md").read_text()
    assert "## What a reviewer would object to\n\nNothing" in text
    assert (tmp_path / "audit" / "audit_splits_test.csv").is_file()
    assert (tmp_path / "audit" / "audit_baselines.csv").is_file()
