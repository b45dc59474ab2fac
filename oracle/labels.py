"""Oracle labels on disk and in memory: every arm's quality and latency, per query.

A labels folder holds (DESIGN: "Files on disk"):

``labels.parquet``           one row per (dataset, query, arm): ``LABEL_COLUMNS`` + a column per
                             measure; quality and latency are null where the status is not
                             ``ok`` or ``empty``
``queries.parquet``          ``dataset, query_id, split, text_group`` and, unless withheld, ``text``
``runs.parquet``             ``dataset, query_id, arm, rank, doc_id, score`` (rank from 1)
``latency_samples.parquet``  ``dataset, query_id, arm, repeat, latency_ms``
``manifest.json``            written last: its presence means that the labels are complete
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from arms.errors import LabelsError

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
LABEL_COLUMNS = (
    "dataset",
    "query_id",
    "split",
    "arm",
    "status",
    # measure columns stand here, named as ir-measures writes them: nDCG@5, RR@5, R@5
    "latency_ms",
    "latency_iqr_ms",
    "latency_modelled",
    "encode_ms",
    "search_ms",
    "rerank_ms",
    "repeats",
)

FloatArray = NDArray[np.float64]
TextArray = NDArray[np.object_]


@dataclass(frozen=True)
class Labels:
    """Labels as aligned arrays: Q queries (rows) × P pipelines (columns), P ⊇ A.

    Row order: by dataset, then query id, as strings. A query is identified by (dataset, query id):
    the same query id may occur in two datasets.
    """

    pipelines: tuple[str, ...]
    """P: every arm that was run, in the manifest's order."""
    router_arms: tuple[str, ...]
    """A ⊆ P: the arms a router may choose, in P's order."""
    datasets: TextArray
    """(Q,) dataset of each query."""
    query_ids: TextArray
    """(Q,)."""
    splits: TextArray
    """(Q,) ``train``, ``val`` or ``test``."""
    text_groups: TextArray
    """(Q,) hash of the normalised text: equal for queries that must share a split."""
    texts: TextArray | None
    """(Q,) query text, or None where it was withheld."""
    status: TextArray
    """(Q, P) one of ``arms.records.Status``; ``skipped`` = the dataset lacks the arm."""
    quality: Mapping[str, FloatArray]
    """Measure → (Q, P); NaN where null."""
    latency_ms: FloatArray
    """(Q, P) median wall-clock milliseconds, serial and warm; NaN where null."""
    manifest: Mapping[str, Any]

    @property
    def primary_measure(self) -> str:
        """The measure that serves as quality ``s``: nDCG@5 unless the run says otherwise."""
        return str(self.manifest["measures"][0])

    def columns_of(self, arms: Sequence[str]) -> NDArray[np.intp]:
        """Return the columns of ``arms`` in P; raise ``LabelsError`` for an unknown one."""
        missing = [arm for arm in arms if arm not in self.pipelines]
        if missing:
            raise LabelsError(
                f"labels have the arms {', '.join(self.pipelines)}; got {', '.join(missing)}"
            )
        return np.array([self.pipelines.index(arm) for arm in arms], dtype=np.intp)

    def available(self, arms: Sequence[str]) -> NDArray[np.bool_]:
        """(Q, len(arms)) True where the query's dataset has the arm (status not ``skipped``)."""
        return np.asarray(self.status[:, self.columns_of(arms)] != "skipped")

    def comparable(self, arms: Sequence[str]) -> NDArray[np.bool_]:
        """(Q,) True where no arm of ``arms`` ended in ``error`` or ``timeout``."""
        status = self.status[:, self.columns_of(arms)]
        return np.asarray(~np.isin(status, ("error", "timeout")).any(axis=1))


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest; raise ``LabelsError`` if the labels are absent, partial or newer."""
    path = folder / MANIFEST
    if not path.is_file():
        raise LabelsError(
            f"{folder} holds no {MANIFEST}, so its labels are absent or unfinished; "
            "run (or rerun) l2r oracle"
        )
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LabelsError(f"{path} is damaged ({error}); rerun l2r oracle") from error
    if not isinstance(manifest, dict):
        raise LabelsError(f"{path} is damaged (no JSON object); rerun l2r oracle")
    version = manifest.get("schema_version")
    if version != SCHEMA_VERSION:
        raise LabelsError(
            f"{path} has schema version {version}, this release reads {SCHEMA_VERSION}; "
            "install the release that wrote it, or rerun l2r oracle"
        )
    return manifest


def _read_table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path, page_checksum_verification=True)
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(f"{path} is absent or damaged ({error}); rerun l2r oracle") from error


def read_labels(folder: Path) -> Labels:
    """Read a complete labels folder into aligned arrays."""
    manifest = read_manifest(folder)
    pipelines = tuple(manifest["pipelines"])
    measures = tuple(manifest["measures"])
    queries = _read_table(folder / "queries.parquet").to_pydict()
    order = sorted(
        range(len(queries["query_id"])),
        key=lambda row: (queries["dataset"][row], queries["query_id"][row]),
    )
    position = {
        (queries["dataset"][row], queries["query_id"][row]): rank for rank, row in enumerate(order)
    }
    shape = (len(order), len(pipelines))
    status = np.full(shape, "skipped", dtype=object)
    latency = np.full(shape, np.nan)
    quality = {measure: np.full(shape, np.nan) for measure in measures}
    table = _read_table(folder / "labels.parquet")
    column_of = {arm: column for column, arm in enumerate(pipelines)}
    rows = np.array(
        [
            position[key]
            for key in zip(table["dataset"].to_pylist(), table["query_id"].to_pylist(), strict=True)
        ],
        dtype=np.intp,
    )
    columns = np.array([column_of[arm] for arm in table["arm"].to_pylist()], dtype=np.intp)
    status[rows, columns] = table["status"].to_numpy(zero_copy_only=False)
    latency[rows, columns] = table["latency_ms"].to_numpy(zero_copy_only=False)
    for measure in measures:
        quality[measure][rows, columns] = table[measure].to_numpy(zero_copy_only=False)

    def ordered(name: str) -> TextArray:
        return np.array([queries[name][row] for row in order], dtype=object)

    return Labels(
        pipelines=pipelines,
        router_arms=tuple(manifest["router_arms"]),
        datasets=ordered("dataset"),
        query_ids=ordered("query_id"),
        splits=ordered("split"),
        text_groups=ordered("text_group"),
        texts=ordered("text") if "text" in queries else None,
        status=status,
        quality=quality,
        latency_ms=latency,
        manifest=manifest,
    )
