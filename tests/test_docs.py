"""The documentation site: it builds without a warning, and needs no network to be read."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*href="https?://'
    )
    assert not [page for page in pages if loaded.search(page.read_text(encoding="utf-8"))]


def test_the_reference_shows_the_python_way(site: Path) -> None:
    page = (site / "reference" / "python.html").read_text(encoding="utf-8")
    for name in ("arms.read_corpus", "oracle.label", "training.train", "analysis.report"):
        assert f'id="{name}"' in page
