"""Every measure once more, from the rankings and grades that the labels hold."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from analysis.audit.findings import Findings, Objection
from oracle.labels import Labels
from oracle.release.graded_quality import quality_faults, sound_relevant_grades
from oracle.release.verify import rankings_were_cut
from oracle.tables import GRADE, RELEVANT_GRADES

RUNS = "runs.parquet"


def check_measures(folder: Path, labels: Labels) -> Findings:
    """Compute each measure where a ranking is held as deep as it looks, and compare.

    Args:
        folder: the labels folder.
        labels: the same, opened.
    """
    queries = pq.read_table(folder / "queries.parquet")
    runs_path = folder / RUNS
    if not runs_path.is_file():
        told = f"No measure could be recomputed: {folder} holds no rankings ({RUNS})."
        return Findings(remarks=(told,))
    runs = pq.read_table(runs_path)
    lacking = [
        name
        for name, table in ((GRADE, runs), (RELEVANT_GRADES, queries))
        if name not in table.column_names
    ]
    if lacking:
        told = f"No measure could be recomputed: the labels lack {' and '.join(lacking)}."
        return Findings(remarks=(told,))
    labelled = pq.read_table(folder / "labels.parquet")
    measures = list(labels.quality)
    whole = not rankings_were_cut(labels.manifest)
    faults = quality_faults(runs, labelled, measures, sound_relevant_grades(queries), whole)
    objections = tuple(Objection("measures", f"{one.place}: {one.message}.") for one in faults)
    rankings = len(runs.group_by(["dataset", "query_id", "arm"]).aggregate([]))
    told = (
        f"{', '.join(measures)}: recomputed from {rankings:,} rankings and their grades; "
        f"{'all agree' if not faults else 'not all agree'}."
    )
    return Findings(objections, (told,))
