"""Labels made up for tests of policies that look at rankings: every document's grade is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.training.synthetic import ARMS, write_labels

DISCOUNTS = 1 / np.log2(np.arange(12) + 2)
JUDGED = np.array([2, 1, *[0] * 28])
"""Grade of each of a query's documents."""


def document_of(place: int, number: int) -> str:
    """Return the id of a query's document; queries are numbered by id."""
    return f"d{(place + number) % 97}"


def graded_labels(
    root: Path,
    grades: bool = True,
    count: int = 600,
    relevant: bool = True,
    lacking: dict[str, tuple[str, ...]] | None = None,
) -> Path:
    """Write labels where each arm sees every document's worth through noise of its own.

    Grades are 0, 1, 2 per document; quality is nDCG@5, with RR@5 beside it. An arm's scores are
    ordered, so only several lists together tell which of them stands on noise.

    Args:
        root: the new folder.
        grades: whether rankings tell them.
        count: queries.
        relevant: whether the queries tell all grades above 0.
        lacking: dataset → arms that it lacks.
    """
    folder = write_labels(root, count=count, shuffled=True, lacking=lacking)
    random = np.random.default_rng(0)
    labels = pq.read_table(folder / "labels.parquet").to_pylist()
    dataset_of = {row["query_id"]: row["dataset"] for row in labels}
    ideal = (np.sort(JUDGED)[::-1][:5] * DISCOUNTS[:5]).sum()
    quality, rows = {}, []
    for number, query_id in enumerate(sorted(dataset_of)):
        for arm in (*ARMS, "text_late"):
            noise = random.choice([0.2, 2.0])
            scores = JUDGED + noise * random.standard_normal(len(JUDGED))
            best = np.argsort(-scores)[:12]
            found = np.flatnonzero(JUDGED[best][:5])
            gain = float((JUDGED[best][:5] * DISCOUNTS[:5]).sum() / ideal)
            quality[query_id, arm] = gain, 1.0 / (found[0] + 1) if len(found) else 0.0
            if arm in (lacking or {}).get(dataset_of[query_id], ()):
                continue
            for rank, place in enumerate(best, start=1):
                row = {"dataset": dataset_of[query_id], "query_id": query_id, "arm": arm}
                row |= {"rank": rank, "doc_id": document_of(int(place), number)}
                row |= {"score": float(scores[place])}
                rows.append(row | ({"grade": int(JUDGED[place])} if grades else {}))
    for row in labels:
        known = row["status"] == "ok"
        told = quality[row["query_id"], row["arm"]] if known else (None, None)
        row["nDCG@5"], row["RR@5"] = told
    pq.write_table(pa.Table.from_pylist(labels), folder / "labels.parquet")
    pq.write_table(pa.Table.from_pylist(rows), folder / "runs.parquet")
    if relevant:
        queries = pq.read_table(folder / "queries.parquet")
        above = sorted((int(grade) for grade in JUDGED if grade > 0), reverse=True)
        lists = pa.array([above] * len(queries), pa.list_(pa.int32()))
        pq.write_table(queries.append_column("relevant_grades", lists), folder / "queries.parquet")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    manifest["measures"] = ["nDCG@5", "RR@5"]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder
