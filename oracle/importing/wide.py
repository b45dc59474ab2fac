"""Tables with one row per query: ``<ARM>_ndcg``, ``<ARM>_latency_ms`` … beside the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oracle.importing.cells import Numbers, parse_numbers, parse_text
from oracle.importing.columns import WideColumns
from oracle.importing.grid import Grid, QueryRows, numbers_of
from oracle.importing.sources import SourceTable


def wide_grid(
    table: SourceTable, columns: WideColumns, measures: Sequence[str], dataset: str
) -> Grid:
    """Return the table as a grid; queries without an id are named by their row.

    Args:
        table: with all of ``columns.names``.
        columns: what holds what.
        measures: the one that serves as quality first.
        dataset: of every query, where the table has no such column.
    """
    n_queries = len(table)
    queries = query_rows(table, columns.base, dataset)
    latencies = []
    for arm in columns.arms:
        column = columns.latency[arm]
        latencies.append(scaled(parse_numbers(table.columns[column.name]), column.factor))
    quality = {
        measure: numbers_of(
            [parse_numbers(table.columns[columns.quality[measure][arm]]) for arm in columns.arms]
        )
        for measure in measures
    }
    status = np.full((n_queries, len(columns.arms)), None, dtype=object)
    for place, arm in enumerate(columns.arms):
        if arm in columns.status:
            status[:, place] = table.columns[columns.status[arm]]

    def column_of(what: str, arm: str) -> str:
        if what == "latency":
            return columns.latency[arm].name
        return columns.status.get(arm, arm) if what == "status" else columns.quality[what][arm]

    rows = np.repeat(queries.rows[:, None], len(columns.arms), axis=1)
    return Grid(queries, columns.arms, quality, numbers_of(latencies), status, rows, column_of)


def query_rows(table: SourceTable, base: Mapping[str, str], dataset: str) -> QueryRows:
    """Return every row of the table as a query.

    The dataset of a row is None where the table has such a column and its cell is empty.
    """

    def column(key: str) -> list[Any] | None:
        return table.columns[base[key]] if key in base else None

    def texts(cells: list[Any]) -> Any:
        return np.array([parse_text(cell) for cell in cells], dtype=object)

    ids, named = column("query_id"), column("dataset")
    text, split = column("text"), column("split")
    datasets = np.full(len(table), dataset, dtype=object)
    if named is not None:
        datasets = np.array([parse_text(cell) for cell in named], dtype=object)
    return QueryRows(
        datasets=datasets,
        query_ids=np.array([f"row{row}" for row in table.rows], dtype=object)
        if ids is None
        else texts(ids),
        texts=None if text is None else texts(text),
        splits=None if split is None else texts(split),
        rows=np.array(table.rows, dtype=np.int64),
    )


def scaled(numbers: Numbers, factor: float) -> Numbers:
    """Return the numbers times ``factor``."""
    return Numbers(numbers.values * factor, numbers.codes, numbers.texts)
