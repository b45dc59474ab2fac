"""The whole report: what it says first, that it is whole, and what it refuses."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from analysis.bootstrap import Estimate
from analysis.figures import planned_figures
from analysis.headline import FEW_QUERIES, verdict
from analysis.markdown import write_markdown
from analysis.results import compute_results
from analysis.sections import Provenance, report_content
from analysis.settings import ReportSettings
from analysis.write_report import write_report
from arms.errors import LabelsError, RouterError, SettingsError, WriteError
from oracle.labels import read_labels
from router.decisions import read_decisions
from tests.analysis.conftest import SETTINGS
from tests.analysis.synthetic import best_columns, best_single_column, decide, make_world
from tests.analysis.test_writing import parse


def test_every_file_is_there_and_named(report):
    present = {path.name for path in report.folder.iterdir()}
    assert {"report.md", "index.html", "report.json", "pareto.png", "pareto.svg"} <= present
    for path in (report.html, report.markdown, *report.csv, *report.figures):
        assert path.stat().st_size > 0
    assert json.loads((report.folder / "report.json").read_text())["format_version"] == 1


def test_the_report_says_in_words_what_counts_once(suite, results):
    labels = read_labels(suite[0])
    decisions = read_decisions(suite[1] / "decisions.parquet")
    is_router = np.array([one == "router" for one in decisions["policy"].to_pylist()])
    reused = pa.array(np.where(is_router, 0.1, 0.0))
    once = compute_results(labels, decisions.append_column("reused_encode_ms", reused), SETTINGS)
    texts = []
    for one in (once, results):
        figures = {entry.name: entry for entry, _ in planned_figures(one)}
        texts.append(write_markdown(report_content(one, figures, Provenance())))
    said = "up to 0.1 ms per query on average; the column 'encoding reused' has it at every λ. "
    assert f"{said}So counted: router. Arms on their own" in texts[0]
    assert "encoding reused" not in texts[1]


def test_what_to_deploy_comes_first_then_the_claim_with_numbers(report, results):
    lines = [line for line in report.markdown.read_text().splitlines() if line]
    assert lines[0] == "# Routing report"
    number = r"nDCG@5 0\.\d{3} in [\d.]+ ms"
    assert re.fullmatch(
        rf"By default, at λ = 0\.1, select and search both ask router: {number}; "
        rf"the best single arm reaches {number}\.",
        lines[1],
    )
    assert re.fullmatch(
        r"At λ = 0\.1 a hundredth of nDCG@5 is worth [\d.]+ ms, "
        r"in the mean over the labelled queries\.",
        lines[2],
    )
    assert lines[3] == "## What to deploy"
    claim = lines[lines.index("## The claim, arm by arm") + 1 :]
    assert re.fullmatch(
        r"At the best λ for each, router is more accurate and faster than \d of 4 single arms\. "
        r"By reward it is ahead of the best single arm at λ = 0 and 0\.1\.",
        claim[0],
    )
    for lam, line in zip(("0", "0.1"), claim[1:3], strict=True):
        assert line.startswith(
            f"At λ = {lam}, router is ahead of the best static arm (text_rerank)"
        )
        assert re.search(r"reward 0\.\d{3} against 0\.\d{3} \(\+0\.\d{3} \[", line)
        assert "nDCG@5" in line and "mean latency" in line and "95% interval" in line


@pytest.mark.parametrize(
    ("estimate", "said"),
    [
        (Estimate(0.1, 0.05, 0.2, 9), "ahead"),
        (Estimate(0.1, -0.05, 0.2, 9), "not clearly ahead"),
        (Estimate(-0.1, -0.2, -0.05, 9), "not ahead"),
        (Estimate(0.0, 0.0, 0.0, 9), "not ahead"),
        (Estimate(None, None, None, 0), "not ahead"),
    ],
)
def test_verdicts(estimate, said):
    assert verdict(estimate) == said


def written(labels, table):
    """The report's Markdown and tables, without drawing."""
    results = compute_results(labels, table, SETTINGS)
    figures = {entry.name: entry for entry, _ in planned_figures(results)}
    content = report_content(results, figures, Provenance())
    return write_markdown(content), {one.name: one for one in content.tables}


def test_a_router_that_is_not_ahead_is_called_so(tmp_path):
    labels = make_world(n=150).write(tmp_path)
    best = np.full(150, best_single_column(labels, 0.0, labels.splits != "test"))
    table = pa.concat_tables(
        [decide(labels, "router", 0.0, best, 2.0), decide(labels, "best_static", 0.0, best)]
    )
    text, _ = written(labels, table)
    assert "At λ = 0, router is not ahead of the best static arm" in text
    assert "The decisions hold no cross-validation folds." in text


def test_a_router_that_beats_no_arm_is_told_in_plain_words_and_few_queries_too(tmp_path):
    labels = make_world(n=60).write(tmp_path)
    worst = np.zeros(60, dtype=int)
    few = int((labels.splits == "test").sum())
    assert few < FEW_QUERIES
    text, _ = written(labels, decide(labels, "router", 0.0, worst, 5000.0))
    assert "At no λ is router both more accurate and faster than any of 4 single arms." in text
    assert f"With only {few} test queries this settles nothing." in text


def test_the_page_opens_alone(report):
    parser = parse(report.html.read_text())
    assert parser.seen.count("script") == 1
    assert parser.seen.count("svg") == 8
    for name, value in parser.attributes:
        if name == "href" and not value.startswith("#"):
            assert (report.folder / value).is_file()
        assert name != "src"
        if name == "xlink:href":
            assert value.startswith("#")
    ids = [value for name, value in parser.attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_markdown_links_exist(report):
    text = report.markdown.read_text()
    linked = re.findall(r"\]\(([^)]+)\)", text)
    assert linked
    for name in linked:
        assert (report.folder / name).is_file(), name


def test_csv_numbers_are_those_of_the_results(report, results):
    with (report.folder / "main.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results.test.summaries)
    one = next(
        row
        for row in rows
        if (row["policy"], row["lam"], row["mean_over"]) == ("router", "0.1", "queries")
    )
    outcome = results.test.scores.get("router", 0.1)
    assert float(one["reward"]) == pytest.approx(outcome.reward.mean(), abs=1e-6)
    assert float(one["latency_ms"]) == pytest.approx(outcome.latency_ms.mean(), abs=1e-6)


@pytest.mark.slow
def test_a_report_is_replaced_by_the_same_bytes(suite, report):
    before = {path.name: path.read_bytes() for path in report.folder.iterdir()}
    write_report(*suite, report.folder, SETTINGS)
    after = {path.name: path.read_bytes() for path in report.folder.iterdir()}
    assert before == after
    names = {path.name for path in report.folder.parent.iterdir()}
    assert names == {"report", ".report.lock"}


def test_a_folder_that_is_no_report_is_kept(suite, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SettingsError, match=r"holds files but no report\.json"):
        write_report(*suite, tmp_path, SETTINGS)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    with pytest.raises(SettingsError, match="is a file; name a folder"):
        write_report(*suite, tmp_path / "thesis.txt", SETTINGS)


def test_a_failure_leaves_the_old_report(suite, report, monkeypatch):
    before = sorted(path.name for path in report.folder.iterdir())

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("analysis.write_report.write_markdown", fail)
    monkeypatch.setattr("analysis.write_report.write_figures", lambda *_: {})
    monkeypatch.setattr("analysis.write_report.report_content", lambda *_: _Empty())
    with pytest.raises(WriteError, match="can't be written"):
        write_report(*suite, report.folder, SETTINGS)
    assert sorted(path.name for path in report.folder.iterdir()) == before


class _Empty:
    tables = ()


def test_missing_inputs_are_named(suite, tmp_path):
    labels_folder, router_folder = suite
    with pytest.raises(LabelsError, match=r"holds no manifest\.json"):
        write_report(tmp_path, router_folder, tmp_path / "report", SETTINGS)
    with pytest.raises(RouterError, match=r"decisions\.parquet is missing; run l2r train"):
        write_report(labels_folder, tmp_path, tmp_path / "report", SETTINGS)
    assert not (tmp_path / "report").exists()


def test_failures_get_a_second_table(tmp_path):
    world = make_world(n=150)
    world.status = np.full(world.quality.shape, "ok", dtype=object)
    failed = np.flatnonzero(np.array(world.splits) == "test")[:3]
    world.status[failed, 2] = "error"
    labels = world.write(tmp_path)
    text, tables = written(labels, decide(labels, "router", 0.0, best_columns(labels, 0.0)))
    assert "3 more were left out for all arms because an arm failed" in text
    assert "failed queries counted as the arm's worst case" in text
    counted = tables["summary_failures_counted"]
    n = [column.key for column in counted.columns].index("n")
    assert counted.rows[0][n] == sum(split == "test" for split in world.splits)


def test_settings_are_checked():
    with pytest.raises(ValueError, match="lam must lie in"):
        ReportSettings(lams=(0.0, 2.0))
    with pytest.raises(ValueError, match="did you mean 'n_resamples'"):
        ReportSettings(n_resample=100)


def test_importing_the_report_loads_neither_matplotlib_nor_scipy_nor_pandas():
    code = "import sys, analysis.write_report; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert not loaded & {"matplotlib", "scipy", "pandas", "torch"}


def test_no_csv_cell_shows_what_kind_of_number_it_is(report):
    """``np.float64(0.3)`` is what repr makes of numpy's numbers; no other program reads it."""
    for path in report.csv:
        assert "np." not in path.read_text(encoding="utf-8"), path.name
