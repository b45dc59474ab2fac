"""``l2r demo`` goes the whole way, and README's snippet prints what it says it prints."""

import sys

import pytest

from tests.test_readme import blocks, run


@pytest.mark.slow
def test_the_demo_ends_with_a_report_and_the_snippet_prints_what_is_shown(tmp_path):
    done = run("l2r demo", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    told = done.stdout[done.stdout.index("mean nDCG@5") :]
    assert "Only arms over page pictures (mm_dense) find: chart, scan." in told
    assert "Words alone (bm25) do as well or better on: table, text." in told
    (report,) = [line for line in told.splitlines() if line.startswith("report: ")]
    assert (tmp_path / report.removeprefix("report: ")).is_file()
    again = run("l2r demo", tmp_path)
    assert again.stdout == done.stdout[done.stdout.index("\nmean nDCG@5") :]
    (command,) = [line for line in told.splitlines() if line.startswith("try: ")]
    tried = run(command.removeprefix("try: ").strip(), tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert "slides-000-p1" in tried.stdout
    shown = run([sys.executable, "-c", blocks("python")[0]], tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout == blocks("text")[0]
