"""Tables, Markdown and HTML: digits, escapes, CSV."""

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from analysis.bootstrap import Estimate
from analysis.content import FigureEntry, ReportContent, Section
from analysis.facts import latency_notes, manifest_facts, read_router_record, router_facts
from analysis.markdown import escape, markdown_table, write_markdown
from analysis.page import write_page
from analysis.storage import index_entries
from analysis.table import Column, Table, write_cell, write_csv
from arms.errors import RouterError

HOSTILE = "<script>alert('x')</script> | a_b *c* `d` [e](http://f)"


@pytest.mark.parametrize(
    ("kind", "cell", "text"),
    [
        ("quality", 0.12345, "0.123"),
        ("ms", 1234.5, "1,234"),
        ("ms", 12.345, "12.3"),
        ("ms", 0.5, "0.50"),
        ("change", -0.02, "−0.020"),
        ("change_ms", -3.0, "−3.00"),
        ("share", 0.256, "26 %"),
        ("times", 12.4, "12.40×"),
        ("lam", 0.1, "0.1"),
        ("count", 12345, "12,345"),
        ("text", "a-b", "a-b"),
        ("quality", None, "–"),
        ("quality", float("nan"), "–"),
        ("change", Estimate(0.1, 0.05, 0.2, 9), "+0.100 [+0.050, +0.200]"),
        ("change", Estimate(0.1, None, None, 9), "+0.100"),
        ("share", Estimate(None, None, None, 9), "undefined"),
    ],
)
def test_cells(kind, cell, text):
    assert write_cell(Column("key", "heading", kind), cell) == text


def small_table():
    columns = (
        Column("arm", "arm | name"),
        Column("gain", "gain", "change"),
        Column("n", "n", "count", shown=False),
    )
    rows = (
        (HOSTILE, Estimate(0.1 + 0.2, 0.1, None, 3), 1),
        ("plain", None, 2),
        ("x,y", Estimate(None, None, None, 0), 3),
    )
    return Table("t", "T", columns, rows, rows[:2], "note")


def test_csv_holds_every_row_column_and_bound():
    read = list(csv.reader(io.StringIO(write_csv(small_table()))))
    assert read[0] == ["arm", "gain", "gain_low", "gain_high", "n"]
    assert read[1] == [HOSTILE, "0.3", "0.1", "", "1"]
    assert read[2] == ["plain", "", "", "", "2"]
    assert read[3] == ["x,y", "", "", "", "3"]
    assert "-0.0" not in write_csv(
        Table("t", "T", (Column("x", "x", "ms"),), ((-0.0000000001,),), ())
    )


def test_markdown_escapes_only_what_is_mark_up():
    assert escape("text_dense@paragraph [0.1, 0.2]") == "text_dense@paragraph [0.1, 0.2]"
    assert escape("_a_ *b*") == r"\_a\_ \*b\*"
    assert escape("a|b\nc") == r"a\|b c"
    assert escape("[e](http://f)") == r"\[e](http://f)"
    lines = markdown_table(small_table()).splitlines()
    assert lines[1] == "| --- | ---: |"
    assert len(lines) == 4
    assert all(line.replace(r"\|", "").count("|") == 3 for line in lines)


class Strict(HTMLParser):
    """Counts elements and checks that they close in order."""

    void = ("meta", "link", "br", "img", "input")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.attributes = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def parse(html):
    parser = Strict()
    parser.feed(html)
    assert not parser.open
    return parser


SVG = (
    '<?xml version="1.0"?><svg xmlns="x" ><g id="a"/><g id="point-0"/>'
    '<use xlink:href="#a" clip-path="url(#a)"/></svg>'
)


def hostile_content():
    figures = (FigureEntry("one", HOSTILE, (HOSTILE,)), FigureEntry("two", "second"))
    section = Section(
        HOSTILE, (HOSTILE,), figures, (small_table(),), ((HOSTILE, HOSTILE),), HOSTILE
    )
    first = FigureEntry("zero", HOSTILE)
    deploy = replace(small_table(), name="deploy", title=HOSTILE)
    return ReportContent(HOSTILE, (HOSTILE, HOSTILE), deploy, first, (section,))


def test_page_escapes_what_comes_from_data_and_loads_nothing():
    html = write_page(hostile_content(), dict.fromkeys(("zero", "one", "two"), SVG))
    parser = parse(html)
    assert parser.seen.count("script") == 1  # the page's own, after which nothing runs
    files = ["deploy.csv", "zero.svg", "zero.png"]
    files += ["one.svg", "one.png", "two.svg", "two.png", "t.csv"]
    links = [value for name, value in parser.attributes if name in ("href", "src")]
    assert [link for link in links if not link.startswith("#")] == files
    assert ("data-tip", HOSTILE) in parser.attributes
    policy = dict(parser.attributes)["content"]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert html.count('id="one-a"') == 1 and html.count('id="two-a"') == 1
    assert 'xlink:href="#two-a"' in html and "url(#two-a)" in html


def test_markdown_of_hostile_content_has_no_stray_link_or_tag():
    text = write_markdown(hostile_content())
    outside_code = text.replace(f"```\n{HOSTILE}\n```", "")
    assert "<script" not in outside_code.replace(r"\<script", "")
    assert not re.search(r"(?<!\\)\[e\]\(http", outside_code)


def test_index_records_and_facts_are_read_where_they_stand():
    record = {"identity": "bm25", "size_bytes": 10, "encoder_id": None, "build_seconds": 1.5}
    arms = {"bm25": {"index": record}, "none": {"index": {}}, "runs": {"latency_stated": 4}}
    manifest = {
        "datasets": {"b": {"arms": arms}, "a": {"arms": {"bm25": {"index": record}}}},
        "threads": [2],
        "hardware": {"cpu": "some cpu", "gpus": []},
        "latency_measured_on": [{"cpu": "x"}, {"cpu": "y"}],
        "config": {"oracle": {"latency": {"repeats": 3}}},
        "pipelines": ["bm25"],
    }
    entries = index_entries(manifest, ("none", "bm25"))
    assert [(one.dataset, one.arm, one.size_bytes) for one in entries] == [
        ("a", "bm25", 10),
        ("b", "bm25", 10),
    ]
    facts = dict(manifest_facts(manifest))
    assert facts == {
        "latency.repeats": "3",
        "threads": "2",
        "hardware.cpu": "some cpu",
        "latency_measured_on.1.cpu": "x",
        "latency_measured_on.2.cpu": "y",
    }
    assert latency_notes(manifest, 0.25) == (
        "25.0% of the arms' latencies are modelled from a timed sample, not timed themselves: "
        "their spread is too small, and P95 with it.",
        "Latencies of runs were stated with the run, not measured.",
    )
    assert latency_notes({}, 0.0) == ()


def test_router_facts_tolerate_absence_but_not_damage(tmp_path):
    assert router_facts(read_router_record(tmp_path)) == ()
    (tmp_path / "router.json").write_text('{"tau": 0.1, "expected": {"0": {}}, "lams": [0, 1]}')
    facts = dict(router_facts(read_router_record(tmp_path)))
    assert facts == {"router.tau": "0.1", "router.lams": "0, 1"}
    (tmp_path / "router.json").write_text("{")
    with pytest.raises(RouterError, match="is not valid JSON"):
        read_router_record(tmp_path)


def test_a_share_that_rounds_is_written_without_a_sign():
    assert write_cell(Column("x", "x", "share"), np.float64(0.004)) == "0 %"
