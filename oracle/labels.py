"""Oracle labels on disk and in memory: every arm's quality and latency, per query.

A labels folder holds (DESIGN: "Files on disk"):

``labels.parquet``           one row per (dataset, query, arm): ``LABEL_COLUMNS`` + a column per
                             measure; quality and latency are null where the status is not
                             ``ok`` or ``empty``
``queries.parquet``          ``dataset, query_id, split, text_group, near_duplicate_group,
                             document_group`` (``oracle.groups``; null where unknown), unless
                             withheld ``text``, and of the relevant pages, for reports alone,
                             ``visual_density`` (null where unknown) and ``page_kind`` (empty where
                             unknown), and ``relevant_grades`` and ``relevant_ids``: the grades
                             above 0 of all documents judged for the query, found or not, descending
                             (null where unknown), and those documents, by grade, then id
``runs.parquet``             ``dataset, query_id, arm, rank, doc_id, score, grade`` (rank from 1;
                             grade as judged, 0 where unjudged, null where unknown)
``latency_samples.parquet``  ``dataset, query_id, arm, repeat, latency_ms``
``manifest.json``            written last: its presence means that the labels are complete
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from arms.arm import ArmSpec
from arms.catalogue import find_kind, spec_of
from arms.errors import LabelsError
from arms.home import expanded
from arms.html_table import html_table
from arms.read_errors import damage
from arms.settings import ArmSettings
from oracle.groups import Groupings
from oracle.settings import SplitBy

if TYPE_CHECKING:
    import pandas as pd

SCHEMA_VERSION = 1
SPLIT = "split"
"""A manifest's entry on how train, val and test were made: ``oracle.groups.split_entry``."""
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
    """(Q,) equal for queries that must share a split whatever it is made by:
    ``oracle.split.query_groups``."""
    texts: TextArray | None
    """(Q,) query text, or None where it was withheld."""
    status: TextArray
    """(Q, P) one of ``arms.records.Status``; ``skipped`` = the dataset lacks the arm."""
    quality: Mapping[str, FloatArray]
    """Measure → (Q, P); NaN where null."""
    latency_ms: FloatArray
    """(Q, P) median wall-clock milliseconds, serial and warm; NaN where null."""
    manifest: Mapping[str, Any]
    relevant_grades: TextArray | None = None
    """(Q,) tuple of the grades above 0 of all documents judged for the query, descending, or None
    where unknown; None as a whole where the labels don't have them. With a ranking's grades they
    give its quality: ``oracle.quality.quality_of_grades``."""
    relevant_ids: TextArray | None = None
    """(Q,) tuple of the documents that ``relevant_grades`` speaks of, in its order: by grade,
    descending, then by id. None as there."""
    near_duplicate_groups: TextArray | None = None
    """(Q,) ``oracle.groups.Groupings.near_duplicate``; None as a whole where unknown."""
    document_groups: TextArray | None = None
    """(Q,) ``oracle.groups.Groupings.document``; None as a whole where unknown."""
    folder: Path | None = None
    """Where they were read; None for labels that lie nowhere."""

    def __repr__(self) -> str:
        datasets = ", ".join(dict.fromkeys(self.datasets.tolist()))
        where = "" if self.folder is None else f" in {self.folder}"
        return (
            f"Labels{where}: {len(self.query_ids):,} queries of {datasets}; "
            f"arms {', '.join(self.pipelines)}; measures {', '.join(self.quality)}"
        )

    def _repr_html_(self) -> str:
        measure = self.primary_measure
        quality, rows = self.quality[measure], []
        for column, arm in enumerate(self.pipelines):
            status = self.status[:, column]
            failed = int(np.isin(status, ("error", "timeout")).sum())
            known = np.isfinite(quality[:, column])
            mean = f"{quality[known, column].mean():.3f}" if known.any() else "–"
            timed = np.isfinite(self.latency_ms[:, column])
            latency = f"{self.latency_ms[timed, column].mean():.1f}" if timed.any() else "–"
            rows.append((arm, mean, latency, int((status != "skipped").sum()), failed))
        header = ("arm", f"mean {measure}", "mean latency, ms", "queries", "failed")
        return html_table(repr(self), header, rows, "training.train(labels)")

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per query and arm: dataset, query_id, split, arm, status, measures, latency.

        Rows are ordered by query, then as ``pipelines``; arms that a dataset lacks have none.

        Raises:
            ImportError: pandas isn't installed.
        """
        import pandas as pd

        width = len(self.pipelines)
        table = {
            "dataset": np.repeat(self.datasets, width),
            "query_id": np.repeat(self.query_ids, width),
            "split": np.repeat(self.splits, width),
            "arm": np.tile(np.array(self.pipelines, dtype=object), len(self.query_ids)),
            "status": self.status.ravel(),
            **{measure: values.ravel() for measure, values in self.quality.items()},
            "latency_ms": self.latency_ms.ravel(),
        }
        frame = pd.DataFrame(table)
        return frame[frame["status"] != "skipped"].reset_index(drop=True)

    @property
    def groupings(self) -> Groupings:
        """The groups of queries in each strength."""
        unknown = np.full(len(self.query_ids), None, dtype=object)
        near, document = self.near_duplicate_groups, self.document_groups
        return Groupings(
            self.datasets,
            self.text_groups,
            unknown if near is None else near,
            unknown if document is None else document,
        )

    @property
    def split_by(self) -> SplitBy:
        """What ``splits`` were made by: the manifest's ``split``, or else equal texts."""
        by: SplitBy = self.manifest.get(SPLIT, {}).get("by", "query")
        return by

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


def labelled_arms(manifest: Mapping[str, Any]) -> dict[str, ArmSpec]:
    """Return P's arms by identity, as the run that made the labels described them.

    Empty where the labels were made elsewhere, which then say nothing of their arms but the names.
    No code is imported: of an arm that this process doesn't know, the description alone counts.
    """
    given = [ArmSettings.model_validate(one) for one in manifest.get("config", {}).get("arms", ())]
    specs = [
        spec_of(one)
        if find_kind(one.arm)
        else ArmSpec(one.arm, one.granularity or "document", one.encoder, one.options, one.name)
        for one in given
    ]
    return {spec.identity: spec for spec in specs}


def read_columns(
    path: Path,
    columns: Sequence[str] | None = None,
    optional: Sequence[str] = (),
    dictionaries: Sequence[str] = (),
    filters: pc.Expression | None = None,
    remedy: str = "rerun l2r oracle, or mend the import",
) -> pa.Table:
    """Read a table of a labels folder, checksums verified.

    Args:
        columns: those that must be there; None: every column.
        optional: read where they are there.
        dictionaries: text columns to read as dictionaries.
        filters: rows to read; default: all.
        remedy: what to do about a file that can't be read, for the message.

    Raises:
        LabelsError: the file is absent or damaged, or lacks a column.
    """
    try:
        present = pq.read_schema(path).names
        missing = [name for name in columns or () if name not in present]
        if not missing:
            wanted = (
                None
                if columns is None
                else [*columns, *(name for name in optional if name in present)]
            )
            return pq.read_table(
                path,
                columns=wanted,
                read_dictionary=list(dictionaries),
                filters=filters,
                page_checksum_verification=True,
            )
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(f"{damage(path, error)}; {remedy}") from error
    raise LabelsError(f"{path} lacks the columns {', '.join(missing)}; {remedy}")


def folder_of(labels: Labels | str | Path) -> Path:
    """Return where labels lie.

    Raises:
        LabelsError: they were never written.
    """
    if not isinstance(labels, Labels):
        return expanded(labels, "labels")
    if labels.folder is None:
        raise LabelsError("these labels lie in no folder; use what label or read_labels returned")
    return labels.folder


def holds_texts(folder: Path) -> bool:
    """Whether labels come with the texts of their queries; False where they can't be read."""
    try:
        return "text" in pq.read_schema(folder / "queries.parquet").names
    except (OSError, pa.ArrowException):
        return False


def read_labels(folder: Path) -> Labels:
    """Read a complete labels folder into aligned arrays.

    Raises:
        LabelsError: it is absent, unfinished or damaged, or is being written anew.
    """
    manifest = read_manifest(folder)
    pipelines = tuple(manifest["pipelines"])
    measures = tuple(manifest["measures"])
    queries = read_columns(folder / "queries.parquet")
    keys = _QueryKeys(queries)
    shape = (len(queries), len(pipelines))
    status = np.full(shape, "skipped", dtype=object)
    latency = np.full(shape, np.nan)
    quality = {measure: np.full(shape, np.nan) for measure in measures}
    path = folder / "labels.parquet"
    names = ["dataset", "query_id", "arm", "status", *measures, "latency_ms"]
    table = read_columns(path, names)
    rows = keys.rows_of(table)
    columns = _places(table["arm"], pa.array(pipelines, pa.string()))
    odd = int(((rows < 0) | (columns < 0)).sum())
    if odd:
        raise LabelsError(
            f"{path} has {odd} rows about a query that queries.parquet lacks or an arm that the "
            f"manifest lacks; the folder mixes two runs: delete {folder / MANIFEST} and rerun "
            "l2r oracle"
        )
    status[rows, columns] = table["status"].to_numpy(zero_copy_only=False)
    latency[rows, columns] = table["latency_ms"].to_numpy(zero_copy_only=False)
    for measure in measures:
        quality[measure][rows, columns] = table[measure].to_numpy(zero_copy_only=False)

    def ordered(name: str) -> TextArray:
        return np.asarray(queries[name].to_numpy(zero_copy_only=False)[keys.order], dtype=object)

    def optional(name: str) -> TextArray | None:
        return ordered(name) if name in queries.column_names else None

    if read_manifest(folder) != manifest:
        raise LabelsError(
            f"the labels in {folder} were written anew while they were being read; run this "
            "command again when that has ended"
        )
    return Labels(
        pipelines=pipelines,
        router_arms=tuple(manifest["router_arms"]),
        datasets=ordered("dataset"),
        query_ids=ordered("query_id"),
        splits=ordered("split"),
        text_groups=ordered("text_group"),
        texts=ordered("text") if "text" in queries.column_names else None,
        status=status,
        quality=quality,
        latency_ms=latency,
        manifest=manifest,
        relevant_grades=_tuples(queries, "relevant_grades", keys.order),
        relevant_ids=_tuples(queries, "relevant_ids", keys.order),
        near_duplicate_groups=optional("near_duplicate_group"),
        document_groups=optional("document_group"),
        folder=folder,
    )


def _tuples(queries: pa.Table, name: str, order: NDArray[np.intp]) -> TextArray | None:
    if name not in queries.column_names:
        return None
    lists = queries[name].to_pylist()
    found = np.fromiter((None if one is None else tuple(one) for one in lists), dtype=object)
    return np.asarray(found[order], dtype=object)


def _places(texts: pa.ChunkedArray, values: pa.Array) -> NDArray[np.int64]:
    """(rows,) place of each text in ``values``; −1 where it isn't there."""
    found = pc.index_in(texts.cast(pa.string()), value_set=values)
    return np.asarray(pc.fill_null(found, -1).to_numpy(), dtype=np.int64)


class _QueryKeys:
    """Finds queries by (dataset, query id) without a loop over rows."""

    def __init__(self, queries: pa.Table) -> None:
        self._datasets = pc.unique(queries["dataset"].cast(pa.string())).sort()
        self._ids = pc.unique(queries["query_id"].cast(pa.string())).sort()
        keys = self._keys(queries)
        self.order = np.argsort(keys, kind="stable")
        """(Q,) rows of ``queries`` by dataset, then query id, as strings."""
        self._sorted = keys[self.order]

    def _keys(self, table: pa.Table) -> NDArray[np.int64]:
        """(rows,) one number per (dataset, query id); −1 where either is unknown."""
        major = _places(table["dataset"], self._datasets)
        minor = _places(table["query_id"], self._ids)
        return np.where((major < 0) | (minor < 0), -1, major * len(self._ids) + minor)

    def rows_of(self, table: pa.Table) -> NDArray[np.intp]:
        """(rows,) place of each row's query in ``order``; −1 where there is none."""
        keys = self._keys(table)
        if not len(self._sorted):
            return np.full(len(keys), -1, dtype=np.intp)
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[place] == keys, place, -1).astype(np.intp)
