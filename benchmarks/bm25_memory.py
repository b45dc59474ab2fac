"""What building and searching BM25 needs at its peak, each measured in a process of its own.

python -m benchmarks.bm25_memory
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from arms.arm import ArmSpec
from arms.catalogue import build_arm, open_arm
from arms.indexes.folder import peak_rss_mb, read_record
from benchmarks.results_file import ROOT, write_result
from benchmarks.videorag_wikihow import K, parser, read

SPEC = ArmSpec("bm25")
STAGES = ("read", "build", "search")


def run_stage(stage: str, data: Path, index_root: Path) -> dict[str, float | None]:
    """Do one stage in this process and return its peak; every stage also reads the set."""
    dataset = read(data)
    if stage == "read":
        for document in dataset.corpus:
            len(document.full_text)
    elif stage == "build":
        import bm25s  # noqa: F401  (its own import isn't the index's peak, but is part of it)

        build_arm(SPEC, dataset.corpus, index_root)
    else:
        open_arm(SPEC, dataset.corpus, index_root).rank([one.text for one in dataset.queries], K)
    return {f"{stage}_peak_rss_mb": peak_rss_mb()}


def in_child(stage: str, data: Path, index_root: Path) -> dict[str, float]:
    arguments = ["--stage", stage, "--data", str(data), "--index", str(index_root)]
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.bm25_memory", *arguments],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(child.stdout.splitlines()[-1])


def main() -> None:
    options = parser("Peak memory of BM25.")
    options.add_argument("--stage", choices=STAGES)
    given = options.parse_args()
    if given.stage:
        print(json.dumps(run_stage(given.stage, given.data, given.index)))
        return
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as root:
        for stage in STAGES:
            figures |= in_child(stage, given.data, Path(root))
        record = read_record(Path(root) / SPEC.folder_name)
    dataset = read(given.data)
    text_bytes = sum(len(document.full_text.encode()) for document in dataset.corpus)
    figures["build_over_reading_mb"] = round(
        figures["build_peak_rss_mb"] - figures["read_peak_rss_mb"], 1
    )
    figures["text_mb"] = round(text_bytes / 1e6, 1)
    figures["index_mb"] = round(record.size_bytes / 1e6, 1)
    figures["n_documents"] = len(dataset.corpus)
    print(write_result("bm25_memory", figures))


if __name__ == "__main__":
    main()
