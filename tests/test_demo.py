"""``l2r demo`` goes the whole way, and the README's snippet prints what it says it prints."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.test_readme import blocks, run


@pytest.mark.slow
def test_the_demo_ends_with_a_report_and_the_snippet_prints_what_is_shown(tmp_path):
    done = run("l2r demo", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1].startswith("report: ")
    assert Path(tmp_path, done.stdout.splitlines()[-1].removeprefix("report: ")).is_file()
    shown = run([sys.executable, "-c", blocks("python")[0]], tmp_path)
    assert shown.returncode == 0, shown.stderr
    first_line = blocks("text")[0].splitlines()[0]
    assert shown.stdout.splitlines()[0] == first_line
    assert len(shown.stdout.splitlines()) == len(blocks("text")[0].splitlines())
    shutil.rmtree(tmp_path / "demo-run")
