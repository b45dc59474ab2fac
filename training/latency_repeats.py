"""Repeated latency samples of labelled queries: what targets are smoothed over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from arms.errors import LabelsError
from oracle.labels import read_columns
from oracle.tables import SAMPLES
from training.table import RoutingTable


def with_repeats(table: RoutingTable, labels_folder: Path) -> RoutingTable:
    """Return the table with ``latency_repeats_ms`` (repeats, Q, arms) of the timed queries.

    Raises:
        LabelsError: the labels hold no samples, or the file is damaged.
    """
    path = labels_folder / SAMPLES
    if not path.is_file():
        raise LabelsError(
            f"training.targets.smoothing is 'repeats', and {labels_folder} holds no {SAMPLES}; "
            "label with l2r oracle and at least two repeats, or set it to 'none'"
        )
    samples = read_columns(path, ("dataset", "query_id", "arm", "repeat", "latency_ms"))
    keys = zip(table.datasets.tolist(), table.query_ids.tolist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    column_of = {arm: column for column, arm in enumerate(table.arms)}
    columns = (samples[name].to_pylist() for name in samples.column_names)
    known = [
        (repeat, row_of[dataset, query_id], column_of[arm], latency_ms)
        for dataset, query_id, arm, repeat, latency_ms in zip(*columns, strict=True)
        if (dataset, query_id) in row_of and arm in column_of and latency_ms is not None
    ]
    repeats = 1 + max((repeat for repeat, *_ in known), default=0)
    found = np.full((repeats, *table.latency_ms.shape), np.nan)
    for repeat, row, column, latency_ms in known:
        found[repeat, row, column] = latency_ms
    return replace(table, latency_repeats_ms=np.where(table.competes, found, np.nan))
