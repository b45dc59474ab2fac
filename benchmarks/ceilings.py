"""The most that ranking anew could come to: the ideal order of what sets of arms found.

On the committed labels of the text suite: nDCG@5 of the union of the sets' recorded lists, in the
order of the judged grades, beside the oracle that picks one arm's list. Nothing is trained and no
text is read. Writes ``benchmarks/results/ceilings.json``.

    PYTHONPATH=. .venv/bin/python benchmarks/ceilings.py
"""

from __future__ import annotations

import numpy as np

from benchmarks.results_file import ROOT, write_result

LABELS = ROOT / "benchmarks" / "labels" / "text-suite"
SETS = {
    "two_bm25": ("bm25", "bm25@paragraph"),
    "four_cheap": ("bm25", "bm25@paragraph", "text_dense", "text_dense@paragraph"),
    "six": (
        "bm25",
        "bm25@paragraph",
        "text_dense",
        "text_dense@paragraph",
        "text_rerank",
        "fusion",
    ),
    "five": ("bm25", "bm25@paragraph", "text_dense", "text_dense@paragraph", "text_rerank"),
}


def main() -> None:
    from arms.records import Ranking
    from oracle.labels import read_labels
    from training.recorded_runs import RecordedRuns

    labels = read_labels(LABELS)
    runs = RecordedRuns(LABELS, labels)
    rows = np.flatnonzero(labels.comparable(labels.pipelines))
    measure = labels.primary_measure
    figures: dict[str, object] = {"queries": len(rows), "depth": runs.depth(labels.router_arms)}
    for name, arms in SETS.items():
        found = [
            tuple(dict.fromkeys(one for arm in arms for one in runs.rankings(arm)[row].doc_ids))
            for row in rows.tolist()
        ]
        union = [Ranking(one, tuple(-float(place) for place in range(len(one)))) for one in found]
        ideal = runs.ceiling_of(rows, union, arms)[measure]
        single = labels.quality[measure][rows][:, labels.columns_of(arms)].max(axis=1)
        figures[f"{name}/ideal_order"] = round(float(ideal.mean()), 6)
        figures[f"{name}/oracle"] = round(float(single.mean()), 6)
    for key, value in figures.items():
        print(f"{key:30} {value}")
    print(write_result("ceilings", figures))


if __name__ == "__main__":
    main()
