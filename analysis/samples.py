"""Single latency timings, aligned with the labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from analysis.evaluation import FloatArray
from analysis.query_places import QueryPlaces, place_of
from oracle.labels import Labels, read_columns
from oracle.tables import SAMPLES

_COLUMNS = ("dataset", "query_id", "arm", "latency_ms")

_REMEDY = (
    "delete manifest.json beside it and rerun l2r oracle, which keeps finished work; without "
    "latency_samples.parquet the report goes without single timings"
)


def read_latency_samples(labels_folder: Path, labels: Labels) -> FloatArray | None:
    """Read (Q, P, repeats) milliseconds, NaN where absent; None where no timings were kept.

    A P95 of per-query medians hides tails; a P95 of these doesn't. Timings of queries or arms
    that the labels don't have are ignored.

    Raises:
        LabelsError: the file is damaged, or lacks a column.
    """
    path = labels_folder / SAMPLES
    if not path.is_file():
        return None
    table = read_columns(path, _COLUMNS, dictionaries=_COLUMNS[:3], remedy=_REMEDY)
    rows = QueryPlaces(labels).rows_of(table["dataset"], table["query_id"])
    columns = place_of(table["arm"], pa.array(labels.pipelines, pa.string()))
    used = (rows >= 0) & (columns >= 0)
    if not used.any():
        return None
    cells = rows[used] * len(labels.pipelines) + columns[used]
    order = np.argsort(cells, kind="stable")
    cells = cells[order]
    first = np.r_[0, np.flatnonzero(np.diff(cells)) + 1]
    repeat = np.arange(len(cells)) - np.repeat(first, np.diff(np.r_[first, len(cells)]))
    shape = (len(labels.query_ids), len(labels.pipelines), int(repeat.max()) + 1)
    samples = np.full(shape, np.nan)
    milliseconds = table["latency_ms"].cast(pa.float64()).to_numpy()[used][order]
    samples[cells // shape[1], cells % shape[1], repeat] = milliseconds
    return samples


def modelled_share(labels_folder: Path) -> float:
    """Share of the labels with a latency whose latency was modelled rather than timed.

    Raises:
        LabelsError: ``labels.parquet`` is absent or damaged.
    """
    table = read_columns(labels_folder / "labels.parquet", ["latency_ms"], ["latency_modelled"])
    if "latency_modelled" not in table.column_names:
        return 0.0
    timed = pc.is_valid(table["latency_ms"])
    modelled = pc.fill_null(table["latency_modelled"], False).filter(timed).to_numpy()
    return float(modelled.mean()) if len(modelled) else 0.0
