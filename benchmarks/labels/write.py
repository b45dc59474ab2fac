"""Copy a run's labels here without any text, with the rankings that probing policies need.

    PYTHONPATH=. .venv/bin/python benchmarks/labels/write.py text-suite

``runs/<suite>/labels`` → ``benchmarks/labels/<suite>``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from oracle.redact import export_without_text

HERE = Path(__file__).parent
TEXT_ARMS = (
    "bm25", "text_dense", "text_late", "text_rerank", "bm25@paragraph", "fusion",
    "fusion_bm25_rerank",
)  # fmt: skip
PROBED = {"text-suite": TEXT_ARMS, "clean-suite": TEXT_ARMS}
"""Suite → the arms whose top ten are kept."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("suite")
    suite = parser.parse_args().suite
    labels = HERE.parent.parent / "runs" / suite / "labels"
    export_without_text(labels, HERE / suite, rankings_of=PROBED.get(suite, ()))
    for path in sorted((HERE / suite).iterdir()):
        print(f"{path.stat().st_size:>10,} bytes  {path.name}")


if __name__ == "__main__":
    main()
