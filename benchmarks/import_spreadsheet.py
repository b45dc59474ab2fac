"""From a wide spreadsheet to a report: import, training and report, each timed with its memory.

    python benchmarks/import_spreadsheet.py [--rows 80000] [--encoder FOLDER_OR_ID]

The table is made up: one row per query, seven arms with nDCG@5, R@5 and milliseconds. Training is
bounded: one λ, no folds, TF-IDF with one strength, and by default a tiny untrained encoder, since
embedding 80,000 queries is the encoder's speed and not ours. Each stage is a process of its own,
the command that a user would type.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.results_file import write_result  # noqa: E402

ARMS = ("bm25", "text_dense", "text_late", "text_rerank", "mm_dense", "mm_late", "mm_rerank")


MAKE_ENCODER = (
    "import sys; from pathlib import Path; from tests.router.tiny_encoders import save_tiny_bert; "
    "save_tiny_bert(Path(sys.argv[1]))"
)
"""Run by itself: a child's peak memory begins at its parent's, which must not hold torch."""


def run_stage(*words: str, cwd: Path) -> tuple[float, float]:
    """Run one ``l2r`` command; return its seconds and the peak MB of all children so far."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-m", "l2r", *words], cwd=cwd, check=True, env=_environment())
    seconds = time.perf_counter() - begin
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def make_table(rows: int, path: Path) -> None:
    """Write the spreadsheet in a process of its own, for the same reason."""
    code = (
        "import sys; from pathlib import Path; from tests.oracle.tables import *; "
        f"write_table(wide_columns({rows}, {ARMS}), Path(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, env=_environment())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=80_000)
    parser.add_argument("--encoder", help="default: a tiny untrained one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "labels.xlsx"
        make_table(given.rows, table)
        encoder = given.encoder or str(folder / "tiny-encoder")
        settings = (
            f"labels: labels\ntraining: {{lams: [0.1], encoder: {encoder}, "
            "cross_validation_folds: 0, baselines: {inverse_regularisation: [1.0]}}\n"
        )
        (folder / "run.yaml").write_text(settings)
        figures: dict[str, object] = {
            "rows": given.rows,
            "arms": len(ARMS),
            "xlsx_mb": table.stat().st_size / 1e6,
        }
        for stage, words in (
            ("import", ("import", "wide", table.name, "labels")),
            ("train", ("train", "run.yaml")),
            ("report", ("report", "run.yaml")),
        ):
            if stage == "train" and not given.encoder:
                made = [sys.executable, "-c", MAKE_ENCODER, encoder]
                subprocess.run(made, check=True, env=_environment())
            seconds, peak_mb = run_stage(*words, cwd=folder)
            figures |= {f"{stage}_s": seconds, f"peak_mb_until_{stage}": peak_mb}
    figures["encoder"] = given.encoder or "tiny, untrained"
    rounded = {k: round(v, 1) if isinstance(v, float) else v for k, v in figures.items()}
    print(write_result("import_spreadsheet", rounded).read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
