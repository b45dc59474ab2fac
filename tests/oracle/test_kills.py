"""SIGKILL at any moment, then rerun: the same rankings and qualities, byte for byte."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from oracle.labels import read_labels
from tests.oracle.killable import SETTINGS

ROOT = Path(__file__).parent.parent.parent
PHASES = ("indexing", "quality", "latency", "writing")
ROUNDS = 5


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.oracle.killable", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder.parent / "pycache"),  # only the first run compiles
            "NUMBA_DISABLE_JIT": "1",
        },
    )


def finish(folder: Path) -> None:
    with start(folder) as child:
        output, _ = child.communicate(timeout=120)
    assert child.returncode == 0
    assert output.split()[-1] == "done"


def kill_in(folder: Path, phase: str, delay_s: float) -> str:
    """Kill the run ``delay_s`` after it first enters ``phase``; return the phase it died in."""
    seen = ""
    with start(folder) as child:
        assert child.stdout is not None
        for line in child.stdout:
            seen = line.strip()
            if seen == phase:
                time.sleep(delay_s)
                child.kill()
                rest = child.stdout.read().split()
                seen = rest[-1] if rest else seen
                break
    assert child.returncode == -9, f"ended by itself in {seen}"
    return seen


def outcome(folder: Path) -> tuple[list[bytes], dict]:
    labels = folder / "labels"
    table = pq.read_table(labels / "labels.parquet")
    columns = ["dataset", "query_id", "split", "arm", "status", *SETTINGS.measures]
    files = [(labels / f"{name}.parquet").read_bytes() for name in ("runs", "queries", "failures")]
    return files, table.select(columns).to_pydict()


@pytest.mark.slow
def test_twenty_kills_in_every_phase_change_nothing(tmp_path):
    finish(tmp_path / "undisturbed")
    expected = outcome(tmp_path / "undisturbed")
    draw = random.Random(20)
    died_in: Counter[str] = Counter()
    for number in range(ROUNDS):
        folder = tmp_path / f"killed{number}"
        for phase in PHASES:
            died_in[kill_in(folder, phase, draw.uniform(0.0, 0.2))] += 1
            if (folder / "labels" / "manifest.json").exists():
                read_labels(folder / "labels")  # a manifest means complete, whatever happened
        finish(folder)
        assert outcome(folder) == expected
    print(f"kills: {dict(died_in)}")
    assert died_in.total() == 20
    assert set(died_in) == set(PHASES), died_in
