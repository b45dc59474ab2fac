"""Labels without any text: small enough to keep beside code, and nobody's documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from arms.atomic import write_json
from arms.errors import LabelsError
from oracle.labels import MANIFEST, Labels, read_manifest
from oracle.split import QueryKey, text_group
from oracle.tables import write_table

_LEFT_OUT = ("text", "runs", "latency_samples", "failures", "best_arms")


def export_without_text(labels_folder: Path, target: Path) -> None:
    """Copy complete labels to ``target`` without text; existing files there are replaced.

    Query ids, splits, text groups, statuses, qualities and latencies stay. Texts and failure
    messages (which may quote a text) go; rankings, single samples and derived best arms go too,
    for size. The manifest lists what is ``withheld``.

    Raises:
        LabelsError: the labels are absent or incomplete.
    """
    manifest = read_manifest(labels_folder)
    (target / MANIFEST).unlink(missing_ok=True)
    labels = pq.read_table(labels_folder / "labels.parquet")
    write_table(target / "labels.parquet", labels, labels.schema)
    queries = pq.read_table(labels_folder / "queries.parquet")
    kept = queries.select([name for name in queries.column_names if name != "text"])
    write_table(target / "queries.parquet", kept, kept.schema)
    write_json(target / MANIFEST, {**manifest, "withheld": list(_LEFT_OUT)})


def attach_texts(labels: Labels, texts: Mapping[QueryKey, str]) -> Labels:
    """Return ``labels`` with the text of every query, looked up by (dataset, query id).

    Raises:
        LabelsError: a query has no text, or one whose hash isn't the labelled text's.
    """
    keys = list(zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True))
    absent = [key for key in keys if key not in texts]
    if absent:
        raise LabelsError(
            f"{len(absent)} of {len(keys)} labelled queries have no text, e.g. "
            f"{absent[0][1]} of {absent[0][0]}; give the datasets that were labelled"
        )
    other = [
        key
        for key, group in zip(keys, labels.text_groups.tolist(), strict=True)
        if text_group(texts[key]) != group
    ]
    if other:
        raise LabelsError(
            f"{len(other)} of {len(keys)} queries have another text than when they were labelled, "
            f"e.g. {other[0][1]} of {other[0][0]}; give the datasets that were labelled"
        )
    return replace(labels, texts=np.array([texts[key] for key in keys], dtype=object))
