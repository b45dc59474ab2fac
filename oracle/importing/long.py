"""Tables with one row per query and arm, as RouterBench's raw results are.

Source of the form: RouterBench (arXiv 2403.12031): ``sample_id, prompt, eval_name, model_name,
performance`` and a cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from arms.text_form import normalised_text
from oracle.importing.cells import MISSING, Numbers, parse_numbers, parse_text
from oracle.importing.columns import LongColumns
from oracle.importing.grid import Grid, QueryRows
from oracle.importing.problems import Problems
from oracle.importing.sources import SourceTable
from oracle.importing.wide import query_rows, scaled


def long_grid(
    table: SourceTable,
    columns: LongColumns,
    measures: Sequence[str],
    dataset: str,
    arms: Sequence[str] | None,
    problems: Problems,
) -> Grid:
    """Return the table as a grid: queries and arms in order of appearance.

    Where a table has no query ids, rows of the same dataset and text are one query, named by its
    first row. A row that repeats a query and arm is a problem, and the earlier row stands.

    Args:
        table: with all of ``columns.names``.
        columns: what holds what; with a latency.
        measures: the one that serves as quality first.
        dataset: of every query, where the table has no such column.
        arms: those to import; default: all.
        problems: added to.
    """
    every = query_rows(table, columns.base, dataset)
    named = [parse_text(cell) for cell in table.columns[columns.base["arm"]]]
    wanted = tuple(arms or dict.fromkeys(arm for arm in named if arm is not None))
    for wish in wanted:
        if wish not in named:
            problems.add("missing_arm", columns.base["arm"], None, f"{wish} stands in no row")
    places = {arm: place for place, arm in enumerate(wanted)}
    query_of, firsts = _queries(every, columns.base, problems)
    cells = np.full((len(firsts), len(wanted)), -1, dtype=np.int64)
    for row, (arm, query) in enumerate(zip(named, query_of, strict=True)):
        if arm is None:
            problems.add("no_arm", columns.base["arm"], table.rows[row])
        elif arm in places and query >= 0:
            if cells[query, places[arm]] < 0:
                cells[query, places[arm]] = row
            else:
                first = table.rows[int(cells[query, places[arm]])]
                problems.add("duplicate_row", "", table.rows[row], f"as row {first}")
    assert columns.latency is not None
    latency = parse_numbers(table.columns[columns.latency.name])
    quality = {
        measure: _laid_out(parse_numbers(table.columns[columns.quality[measure]]), cells)
        for measure in measures
    }
    status = np.full(cells.shape, None, dtype=object)
    if "status" in columns.base:
        given = np.array([*table.columns[columns.base["status"]], None], dtype=object)
        status = given[cells]
    numbers = np.array([*table.rows, 0], dtype=np.int64)
    queries = _taken(every, firsts)
    rows = np.where(cells >= 0, numbers[cells], queries.rows[:, None])
    header = columns.latency.name

    def column_of(what: str, arm: str) -> str:
        if what == "status":
            return f"{columns.base.get('status', 'status')} of {arm}"
        return f"{header if what == 'latency' else columns.quality[what]} of {arm}"

    timed = scaled(_laid_out(latency, cells), columns.latency.factor)
    return Grid(queries, wanted, quality, timed, status, rows, column_of)


def _queries(
    every: QueryRows, base: Mapping[str, str], problems: Problems
) -> tuple[list[int], list[int]]:
    """(rows,) number of each row's query, −1 where it has no id; and the first row of each query.

    A query with two texts is a problem.
    """
    known: dict[tuple[str, str], int] = {}
    firsts: list[int] = []
    query_of: list[int] = []
    by_text = "query_id" not in base
    for row, number in enumerate(every.rows.tolist()):
        if every.datasets[row] is None:
            problems.add("no_dataset", base["dataset"], number)
            query_of.append(-1)
            continue
        text = None if every.texts is None else every.texts[row]
        query_id = normalised_text(text or "") if by_text else every.query_ids[row]
        if query_id is None or query_id == "":
            if by_text:
                problems.add("empty_text", base["text"], number)
            else:
                problems.add("no_query_id", base["query_id"], number)
            query_of.append(-1)
            continue
        query = known.setdefault((every.datasets[row], query_id), len(firsts))
        if query == len(firsts):
            firsts.append(row)
        elif every.texts is not None and text != every.texts[firsts[query]] and not by_text:
            first = int(every.rows[firsts[query]])
            problems.add("other_text", base["text"], number, f"than row {first}")
        if every.splits is not None and query < len(firsts) and firsts[query] != row:
            _check_same_split(every, row, firsts[query], base["split"], problems)
        query_of.append(query)
    return query_of, firsts


def _check_same_split(
    every: QueryRows, row: int, first: int, column: str, problems: Problems
) -> None:
    """Add a problem where a later row of a query has no split, or another than the first."""
    assert every.splits is not None
    own, known = every.splits[row], every.splits[first]
    number = int(every.rows[row])
    if own is None:
        problems.add("unknown_split", column, number, "empty")
    elif known is not None and own.lower() != known.lower():
        problems.add("torn_split", column, number, f"{known} in row {int(every.rows[first])}")


def _taken(every: QueryRows, rows: list[int]) -> QueryRows:
    return QueryRows(
        every.datasets[rows],
        every.query_ids[rows],
        None if every.texts is None else every.texts[rows],
        None if every.splits is None else every.splits[rows],
        every.rows[rows],
    )


def _laid_out(numbers: Numbers, cells: np.ndarray) -> Numbers:
    """Put (rows,) numbers where ``cells`` (Q, P) says; −1 is a missing one."""
    found = Numbers(
        np.append(numbers.values, np.nan)[cells], np.append(numbers.codes, np.uint8(MISSING))[cells]
    )
    if numbers.texts:
        for query, place in np.argwhere(cells >= 0).tolist():
            text = numbers.texts.get((int(cells[query, place]),))
            if text is not None:
                found.texts[query, place] = text
    return found
