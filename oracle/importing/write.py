"""A checked grid becomes a labels folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from arms.atomic import atomic_folder, write_json
from arms.errors import LabelsError, SettingsError
from arms.sole_writer import sole_writer
from arms.text_form import composed
from oracle.groups import (
    Groupings,
    group_queries,
    groups_in_force,
    split_entry,
    split_rows,
)
from oracle.hardware import library_versions, source_commit
from oracle.importing.grid import Grid, QueryRows
from oracle.importing.problems import Problems, refuse, write_problems
from oracle.labels import MANIFEST, SCHEMA_VERSION, SPLIT, read_manifest
from oracle.plan import digest_of
from oracle.release.checksums import sha256_of
from oracle.settings import OracleSettings, SplitBy, SplitSettings
from oracle.tables import (
    GROUP_COLUMNS,
    QUERY_SCHEMA,
    RELEVANT_FIELDS,
    RELEVANT_GRADES,
    RELEVANT_IDS,
    column,
    label_schema,
    write_table,
)

DROPPED = "dropped.csv"


@dataclass(frozen=True)
class ImportOptions:
    """How to read a source."""

    arms: tuple[str, ...] | None = None
    """Those to import; default: all that the source has."""
    router_arms: tuple[str, ...] | None = None
    """A, the arms a router may choose; default: all imported."""
    quality: str | None = None
    """The measure that serves as quality; default: nDCG@5, or else an nDCG, or else the first."""
    dataset: str | None = None
    """Name of the dataset where the source names none; default: the file's name."""
    columns: Mapping[str, str] | None = None
    """``text``, ``query_id`` … → header, where the header isn't a usual one."""
    latency_unit: str | None = None
    """``ms`` or ``s``, for headers that don't say."""
    sheet: str | None = None
    lenient: bool = False
    """Leave out what has a problem, and record it, instead of refusing."""
    seed: int = 42
    """Of the split, where the source has none."""
    split: SplitBy = "near_duplicate"
    """What the split keeps together, where the source has none; looser where texts or judgements
    are unknown."""
    overwrite: bool = False
    """Replace labels of an earlier import in the target."""

    def __post_init__(self) -> None:
        """Names take the composed Unicode form (NFC) that cells and headers are read in."""
        for name in ("arms", "router_arms"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else tuple(map(composed, given)))
        for name in ("quality", "dataset", "sheet"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else composed(given))
        if self.columns is not None:
            columns = {key: composed(header) for key, header in self.columns.items()}
            object.__setattr__(self, "columns", columns)


@dataclass(frozen=True, slots=True)
class Imported:
    """What was written."""

    folder: Path
    n_queries: int
    n_dropped: int
    """Queries with a problem, left out."""
    arms: tuple[str, ...]
    measures: tuple[str, ...]
    splits: Mapping[str, int]
    split: Mapping[str, Any]
    """What the manifest says of how the split was made."""
    n_unjudged: int = 0
    """Queries of runs that no judgement names, left out."""


def check_import_target(target: Path, overwrite: bool) -> None:
    """Raise ``SettingsError`` if importing would delete anything that nobody gave up.

    Earlier imported labels are replaced with ``overwrite``, anything else never.
    """
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not _holds_imported_labels(target):
        raise SettingsError(
            f"{target} exists and holds no imported labels; an import replaces its folder: name a "
            "new one, or empty this"
        )
    if not overwrite:
        raise SettingsError(
            f"{target} holds imported labels already; name another folder, or replace them with "
            "--overwrite"
        )


def _holds_imported_labels(folder: Path) -> bool:
    try:
        return folder.is_dir() and "imported" in read_manifest(folder)
    except LabelsError:
        return False


def write_grid(
    grid: Grid,
    status: NDArray[np.object_],
    target: Path,
    sets: Sequence[Problems],
    options: ImportOptions,
    kind: str,
    files: Iterable[Path],
    runs: pa.Table | None = None,
    n_unjudged: int = 0,
) -> Imported:
    """Write labels of the queries without a problem; refuse where there is one, unless lenient.

    Args:
        grid: Q queries × P arms.
        status: (Q, P), settled.
        target: replaced as a whole.
        sets: problems of every source; the first counts the rows of ``grid``.
        options: how the source was read.
        kind: ``wide``, ``long`` or ``trec``.
        files: what was read; their hashes go to the manifest.
        runs: rankings, where the source has them; columns of ``runs.parquet``.
        n_unjudged: queries of the runs that were left out before; the manifest counts them.

    Raises:
        LabelsError: with every problem, unless lenient and no problem concerns the source as a
            whole; or no query is left.
        FolderInUseError: another process writes ``target``.
    """
    found = [one for one in sets if one.found]
    if found and (not options.lenient or any(one.fatal for one in found)):
        refuse(found, target)
    wrong = np.isin(grid.rows, list(sets[0].rows)).any(axis=1)
    wrong |= np.isin(grid.queries.rows, list(sets[0].rows))
    kept = ~wrong
    if not kept.any():
        sets[0].add("no_row", "", None)
        refuse(sets, target)
    n_dropped = int(wrong.sum())
    dropped = Counter(grid.queries.datasets[wrong].tolist())
    grid, status = grid.taken(kept), status[kept]
    order = np.lexsort((grid.queries.query_ids.astype(str), grid.queries.datasets.astype(str)))
    grid, status = grid.taken(order), status[order]
    groupings = _groupings(grid.queries)
    force = groups_in_force(groupings, options.split)
    splits = grid.queries.splits
    made_by: dict[str, Any] = {"by": "query", "given": True, "fallbacks": {}}
    if splits is None:
        made_by = split_entry(force)
        splits = split_rows(groupings.datasets.tolist(), force, SplitSettings(), options.seed)
    manifest = _manifest(grid, status, options, kind, files, dropped) | {SPLIT: made_by}
    if n_unjudged:
        manifest["imported"]["unjudged_queries"] = n_unjudged
    with sole_writer(target), atomic_folder(target) as folder:
        check_import_target(target, options.overwrite)  # another import may have been first
        measures = tuple(grid.quality)
        write_table(
            folder / "labels.parquet", _labels(grid, status, splits), label_schema(measures)
        )
        queries = _queries(grid, groupings, splits)
        write_table(folder / "queries.parquet", queries, queries.schema)
        if runs is not None:
            write_table(folder / "runs.parquet", runs, runs.schema)
        if found:
            write_problems(found, folder / DROPPED)
        write_json(folder / MANIFEST, manifest)
    return Imported(
        target,
        len(grid.queries),
        n_dropped,
        grid.arms,
        tuple(grid.quality),
        dict(sorted(Counter(splits.tolist()).items())),
        made_by,
        n_unjudged,
    )


def _groupings(queries: QueryRows) -> Groupings:
    return group_queries(
        queries.datasets.tolist(),
        queries.groups().tolist(),
        None if queries.texts is None else [text or "" for text in queries.texts],
        None if queries.relevant_ids is None else queries.relevant_ids.tolist(),
    )


def _labels(grid: Grid, status: NDArray[np.object_], splits: NDArray[np.object_]) -> pa.Table:
    """One row per query and arm; nothing is known of how the latencies were taken."""
    n_arms = len(grid.arms)
    ran = np.isin(status, ("ok", "empty"))
    unknown = np.full(status.size, np.nan)
    values: dict[str, Any] = {
        "dataset": np.repeat(grid.queries.datasets, n_arms),
        "query_id": np.repeat(grid.queries.query_ids, n_arms),
        "split": np.repeat(splits, n_arms),
        "arm": np.tile(np.array(grid.arms, dtype=object), len(grid.queries)),
        "status": status.reshape(-1),
        "latency_ms": np.where(ran, grid.latency_ms.values, np.nan).reshape(-1),
        "latency_modelled": np.zeros(status.size, dtype=bool),
        "repeats": np.zeros(status.size, dtype=np.int32),
    }
    for measure, numbers in grid.quality.items():
        quality = np.where(status == "empty", 0.0, numbers.values)
        values[measure] = np.where(ran, quality, np.nan).reshape(-1)
    schema = label_schema(tuple(grid.quality))
    return pa.table(
        {field.name: column(values.get(field.name, unknown), field.type) for field in schema}
    )


def _queries(grid: Grid, groupings: Groupings, splits: NDArray[np.object_]) -> pa.Table:
    queries = grid.queries
    columns = {
        "dataset": queries.datasets.tolist(),
        "query_id": queries.query_ids.tolist(),
        "split": splits.tolist(),
        **{
            name: groups.tolist()
            for name, groups in zip(GROUP_COLUMNS, groupings.columns, strict=True)
        },
    }
    if queries.texts is not None:
        columns["text"] = queries.texts.tolist()
    if queries.relevant_grades is not None and queries.relevant_ids is not None:
        columns[RELEVANT_GRADES] = queries.relevant_grades.tolist()
        columns[RELEVANT_IDS] = queries.relevant_ids.tolist()
    known = pa.schema([*QUERY_SCHEMA, *RELEVANT_FIELDS])
    return pa.table(columns, schema=pa.schema([known.field(name) for name in columns]))


def _manifest(
    grid: Grid,
    status: NDArray[np.object_],
    options: ImportOptions,
    kind: str,
    files: Iterable[Path],
    dropped: Mapping[str, int],
) -> dict[str, Any]:
    router_arms = _router_arms(grid.arms, options.router_arms)
    config = {
        "import": {
            "format": kind,
            "columns": dict(options.columns or {}),
            "latency_unit": options.latency_unit,
            "lenient": options.lenient,
            "sheet": options.sheet,
        },
        "seed": options.seed,
    }
    datasets: dict[str, Any] = {}
    for dataset in sorted(set(grid.queries.datasets.tolist())):
        rows = grid.queries.datasets == dataset
        datasets[dataset] = {
            "n_queries": int(rows.sum()),
            "dropped": {"queries": dropped.get(dataset, 0)},
            "arms": {
                arm: {
                    "status": dict(sorted(Counter(status[rows, place].tolist()).items())),
                    "latency_stated": int(np.isin(status[rows, place], ("ok", "empty")).sum()),
                    "latency_modelled": 0,
                }
                for place, arm in enumerate(grid.arms)
            },
        }
    return {
        "schema_version": SCHEMA_VERSION,
        "pipelines": list(grid.arms),
        "router_arms": list(router_arms),
        "measures": list(grid.quality),
        "config": config,
        "config_hash": digest_of(config),
        "seed": options.seed,
        "lams": list(OracleSettings().lams),
        "library_versions": library_versions(),
        "commit": source_commit(),
        "imported": {"format": kind, "sha256": {path.name: sha256_of(path) for path in files}},
        "datasets": datasets,
        **({} if grid.queries.texts is not None else {"withheld": ["text", "text_group"]}),
    }


def _router_arms(arms: Sequence[str], wished: Sequence[str] | None) -> tuple[str, ...]:
    if wished is None:
        return tuple(arms)
    unknown = [arm for arm in wished if arm not in arms]
    if unknown:
        raise SettingsError(
            f"--router-arm must name imported arms ({', '.join(arms)}), got {', '.join(unknown)}"
        )
    return tuple(arm for arm in arms if arm in wished)
