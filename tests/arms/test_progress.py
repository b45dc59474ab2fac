"""Progress where nothing draws bars."""

import itertools
import time

import pytest

from arms.progress import ConsoleProgress, PlainProgress, duration, watched


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = {"s": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])
    return now


def lines(capsys):
    return capsys.readouterr().err.splitlines()


def test_a_step_is_told_at_the_beginning_then_every_thirty_seconds_and_at_its_end(clock, capsys):
    with PlainProgress().task("rank corp", total=600) as task:
        for _ in range(60):
            clock["s"] += 2.5
            task.advance(10)
    told = lines(capsys)
    assert told[0] == "rank corp: 10 of 600 done, 2 s, about 2 min 28 s left"
    assert told[1] == "rank corp: 130 of 600 done, 32 s, about 1 min 58 s left"
    assert told[-1] == "rank corp: 600 of 600 done in 2 min 30 s"
    assert len(told) == 6


def test_a_short_step_has_one_line_and_a_step_of_unknown_length_no_time_left(clock, capsys):
    progress = PlainProgress()
    with progress.task("write labels", total=8) as task:
        task.advance(8)
    with progress.task("read t.csv") as task:
        clock["s"] = 5
        task.advance(1200)
    assert lines(capsys) == [
        "write labels: 8 of 8 done in 0 s",
        "read t.csv: 1,200 done, 5 s",
        "read t.csv: 1,200 done in 5 s",
    ]


def test_a_step_that_fails_is_not_told_as_done(clock, capsys):
    progress = PlainProgress()
    with pytest.raises(ValueError, match="x"), progress.task("rank corp", total=600):
        raise ValueError("x")
    assert lines(capsys) == []


def test_steps_that_do_not_move_are_told_too(capsys):
    """The thread that tells needs nobody to advance, and tells of the command between steps."""
    progress = PlainProgress()
    progress.first_s, progress.every_s = 0.02, 0.06
    with progress.watched("l2r oracle"):
        time.sleep(0.3)
        with progress.task("OCR", total=200):
            time.sleep(0.3)
    told = [line.partition(",")[0] for line in lines(capsys)]
    steps = [step for step, _ in itertools.groupby(told)]
    assert steps == ["l2r oracle: working", "OCR: 0 of 200 done", "OCR: 0 of 200 done in 0 s"]
    assert len(told) >= 5


def test_bars_are_for_terminals_only(capsys, monkeypatch):
    with watched("l2r"), ConsoleProgress().task("read", total=1) as task:
        task.advance()
    assert lines(capsys) == ["read: 1 of 1 done in 0 s"]
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with watched("l2r"), ConsoleProgress().task("read", total=1) as task:
        task.advance()
    assert "1/1" in capsys.readouterr().err


def test_durations_read_well():
    assert [duration(s) for s in (0.2, 59, 200, 7500)] == ["0 s", "59 s", "3 min 20 s", "2 h 5 min"]
