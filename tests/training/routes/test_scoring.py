import csv

import numpy as np

from router.policy import Plan
from training.routes.score_files import write_scores
from training.routes.scoring import score_plans
from training.routes.table import RouteTable


def text(*values):
    return np.array(values, dtype=object)


TABLE = RouteTable(
    ("a", "b"),
    text("1", "2", "3", "4"),
    text("w", "x", "y", "z"),
    text("s", "s", "t", "t"),
    text(*["test"] * 4),
    np.array([[1, 0], [0, 1], [1, 1], [1, 0]], dtype=bool),
)


def test_sets_must_be_equal_and_first_ones_need_not():
    plans = [Plan(("a",)), Plan(("a",)), Plan(("b", "a"), "fuse"), Plan(("a", "b"), "fuse")]
    score = score_plans("p", plans, TABLE)
    assert score.accuracy == 0.5
    assert score.first_right == 0.75
    assert score.routes_taken == 1.5
    assert score.by_source == {"s": 0.5, "t": 0.5}
    # Needed a: first taken a, b, a; needed b: first taken a, b.
    assert score.confusion.tolist() == [[2, 1], [1, 1]]


def test_tables_hold_every_policy(tmp_path):
    scores = [
        score_plans("always|a", [Plan(("a",))] * 4, TABLE),
        score_plans("b", [Plan(("b",))] * 4, TABLE),
    ]
    file = write_scores(scores, TABLE.routes, {"b": 0.25}, {"b": "a remark"}, tmp_path)
    with (tmp_path / "scores.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["accuracy"] for row in rows] == ["0.5000", "0.2500"]
    assert rows[1]["overhead ms"] == "0.25"
    assert rows[1]["remark"] == "a remark"
    written = file.read_text(encoding="utf-8")
    assert "always\\|a" in written
    assert "| b | 2 | 0 |" in written
    with (tmp_path / "confusion.csv").open(encoding="utf-8") as stream:
        assert len(list(csv.reader(stream))) == 1 + 2 * 2
