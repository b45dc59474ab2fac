"""Single latency timings, aligned with the labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from analysis.evaluation import FloatArray
from oracle.labels import Labels

LATENCY_SAMPLES = "latency_samples.parquet"
_SEPARATOR = "\x1f"


def read_latency_samples(labels_folder: Path, labels: Labels) -> FloatArray | None:
    """Read (Q, P, repeats) milliseconds, NaN where absent; None where no timings were kept.

    A P95 of per-query medians hides tails; a P95 of these doesn't. Timings of queries or arms
    that the labels don't have are ignored.
    """
    path = labels_folder / LATENCY_SAMPLES
    if not path.is_file():
        return None
    table = pq.read_table(path, columns=["dataset", "query_id", "arm", "latency_ms"])
    keys = pc.binary_join_element_wise(table["dataset"], table["query_id"], _SEPARATOR)
    known = pa.array(labels.datasets + _SEPARATOR + labels.query_ids, pa.string())
    rows = pc.fill_null(pc.index_in(keys, value_set=known), -1).to_numpy().astype(np.intp)
    arms = pc.index_in(table["arm"], value_set=pa.array(labels.pipelines, pa.string()))
    columns = pc.fill_null(arms, -1).to_numpy().astype(np.intp)
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
    milliseconds = table["latency_ms"].to_numpy()[used][order]
    samples[cells // shape[1], cells % shape[1], repeat] = milliseconds
    return samples


def modelled_share(labels_folder: Path) -> float:
    """Share of the labels with a latency whose latency was modelled rather than timed."""
    path = labels_folder / "labels.parquet"
    if "latency_modelled" not in pq.read_schema(path).names:
        return 0.0
    table = pq.read_table(path, columns=["latency_ms", "latency_modelled"])
    timed = pc.is_valid(table["latency_ms"])
    modelled = pc.fill_null(table["latency_modelled"], False).filter(timed).to_numpy()
    return float(modelled.mean()) if len(modelled) else 0.0
