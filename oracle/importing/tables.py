"""Import of one table: open it, find its columns, check it, write labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from arms.errors import SettingsError
from arms.progress import Progress, SilentProgress
from arms.text_form import composed
from oracle.importing.columns import (
    UNITS,
    LongColumns,
    WideColumns,
    in_order,
    long_columns,
    wide_columns,
)
from oracle.importing.grid import Grid, check_queries, settle_status
from oracle.importing.long import long_grid
from oracle.importing.problems import Problems, refuse
from oracle.importing.sources import SourceTable, open_table
from oracle.importing.wide import wide_grid
from oracle.importing.write import Imported, ImportOptions, check_import_target, write_grid

Columns = TypeVar("Columns", WideColumns, LongColumns)
COLUMN_KEYS = ("query_id", "text", "dataset", "split", "arm", "status", "latency")


def import_wide(
    path: Path, target: Path, options: ImportOptions, progress: Progress | None = None
) -> Imported:
    """Import a table with one row per query to the labels folder ``target``.

    Raises:
        LabelsError: the table can't be read, or has problems: all of them, with row numbers.
        SettingsError: an option that doesn't fit, or a target that holds something else.
    """
    check_options(options, target)
    columns, table, problems = _read(
        path,
        target,
        options,
        lambda header, problems: wide_columns(
            header, options.arms, options.columns or {}, options.latency_unit, problems
        ),
        progress,
    )
    measures = ordered_measures(columns.quality, options.quality)
    grid = wide_grid(table, columns, measures, options.dataset or composed(path.stem))
    return _write(path, target, "wide", grid, columns.base, problems, options)


def import_long(
    path: Path, target: Path, options: ImportOptions, progress: Progress | None = None
) -> Imported:
    """Import a table with one row per query and arm; otherwise as :func:`import_wide`."""
    check_options(options, target)
    columns, table, problems = _read(
        path,
        target,
        options,
        lambda header, problems: long_columns(
            header, options.columns or {}, options.latency_unit, problems
        ),
        progress,
    )
    measures = ordered_measures(columns.quality, options.quality)
    grid = long_grid(
        table, columns, measures, options.dataset or composed(path.stem), options.arms, problems
    )
    return _write(path, target, "long", grid, columns.base, problems, options)


def _read(
    path: Path,
    target: Path,
    options: ImportOptions,
    find: Callable[[Sequence[str], Problems], Columns],
    progress: Progress | None,
) -> tuple[Columns, SourceTable, Problems]:
    """Open the table, find its columns and read them; refuse where one is missing, or no row."""
    problems = Problems(str(path))
    with open_table(path, options.sheet) as opened:
        columns = find(opened.header, problems)
        if problems.found:
            refuse([problems], target)
        table = opened.read(columns.names, progress or SilentProgress())
    problems.n_rows = len(table)
    if not len(table):
        problems.add("no_row", "", None)
        refuse([problems], target)
    return columns, table, problems


def _write(
    path: Path,
    target: Path,
    kind: str,
    grid: Grid,
    base: Mapping[str, str],
    problems: Problems,
    options: ImportOptions,
) -> Imported:
    grid = replace(grid, queries=check_queries(grid.queries, base, problems))
    status = settle_status(grid, problems)
    return write_grid(grid, status, target, [problems], options, kind, [path])


def ordered_measures(known: Collection[str], quality: str | None) -> tuple[str, ...]:
    """Return the measures with the one that serves as quality first.

    Raises:
        SettingsError: the wished one isn't there.
    """
    if quality is not None and quality not in known:
        raise SettingsError(f"--quality is one of {', '.join(known)} here, got {quality}")
    return in_order(tuple(known), quality)


def check_options(options: ImportOptions, target: Path) -> None:
    """Raise ``SettingsError`` for what can be seen before anything is read."""
    unknown = [key for key in options.columns or {} if key not in COLUMN_KEYS]
    if unknown:
        raise SettingsError(f"--column takes {', '.join(COLUMN_KEYS)}; got {', '.join(unknown)}")
    if options.latency_unit is not None and options.latency_unit not in UNITS:
        raise SettingsError(f"--latency-unit is ms or s, got {options.latency_unit!r}")
    check_import_target(target, options.overwrite)
