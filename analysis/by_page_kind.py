"""Mean quality of each arm on questions about each kind of page."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oracle.labels import read_columns, read_labels


def by_page_kind(labels_folder: Path) -> dict[str, dict[str, float]]:
    """Page kind → arm → mean of the primary measure, over all labelled queries of that kind.

    Raises:
        LabelsError: the labels are unfinished.
    """
    labels = read_labels(labels_folder)
    table = read_columns(labels_folder / "queries.parquet", ("dataset", "query_id", "page_kind"))
    kind_of = dict(
        zip(
            zip(table["dataset"].to_pylist(), table["query_id"].to_pylist(), strict=True),
            table["page_kind"].to_pylist(),
            strict=True,
        )
    )
    keys = zip(labels.datasets.tolist(), labels.query_ids.tolist(), strict=True)
    kinds = np.array([kind_of[key] for key in keys], dtype=object)
    quality = labels.quality[labels.primary_measure]
    return {
        kind: dict(
            zip(labels.pipelines, np.nanmean(quality[kinds == kind], axis=0).tolist(), strict=True)
        )
        for kind in sorted(set(kinds.tolist()))
        if kind
    }
