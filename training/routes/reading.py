"""Reads routing labels: a folder with queries.jsonl and routes/*.tsv, or one table.

Folder: ``queries.jsonl`` as in BEIR (``_id``, ``text``, ``metadata`` with perhaps ``source``) and
``routes/train.tsv``, ``routes/test.tsv``, perhaps ``routes/val.tsv`` or ``dev.tsv``: a query id and
a route on each line, tab between, below a header; a query with several routes has several lines.
Table: CSV, TSV, parquet or XLSX with the columns ``query`` and ``routes``, perhaps ``query_id``,
``source`` and ``split``. The routes of a cell are a list (of parquet, or JSON), or names with one
of ``,``, ``|`` and ``+`` between. Where one of these may belong to a route's name, the separator is
given (``none``: one route a cell); without one, a cell is refused whose parts never stand alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from arms.corpora.beir import parse_query
from arms.corpora.lines import decode, numbered_lines
from arms.corpora.problems import PROBLEM_KINDS, LineError
from arms.errors import CorpusError, LabelsError
from arms.progress import Progress, SilentProgress
from arms.text_form import composed, is_visible
from oracle.importing.cells import parse_text
from oracle.importing.sources import ENDINGS, SourceTable, open_table
from training.routes.table import SPLITS, RouteTable

COLUMNS: dict[str, tuple[str, ...]] = {
    "query": ("query", "text", "question"),
    "routes": ("routes", "route", "label", "labels"),
    "query_id": ("query_id", "query-id", "id", "_id"),
    "source": ("source", "dataset"),
    "split": ("split",),
}
"""What is read of a table → the headers it may stand under, case folded."""
_SPLIT_NAMES = {"train": "train", "val": "val", "dev": "val", "validation": "val", "test": "test"}
BETWEEN = (",", "|", "+")
"""What may stand between the routes of a cell, unless a separator is given."""
ONE_ROUTE = "none"
"""In place of a separator: a cell holds one route, whatever its name."""
_SHOWN, _NAMED = 20, 5
"""Problems, and ids of one problem, that a message tells."""


@dataclass(frozen=True)
class _Row:
    query_id: str
    text: str
    source: str
    split: str
    routes: frozenset[str]


@dataclass
class _Found:
    """Rows read, and every problem met on the way."""

    rows: list[_Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read_routes(
    path: Path, progress: Progress | None = None, separator: str | None = None
) -> RouteTable:
    """Read the labels at ``path``.

    Args:
        path: a folder or a table.
        progress: where a bar is drawn.
        separator: what stands between the routes of a table's cell; ``none``: they hold one each;
            default: any of ``BETWEEN``.

    Raises:
        LabelsError: with every problem of the labels, each by its file and line or row.
        MissingExtraError: an XLSX file, and openpyxl isn't installed.
    """
    bars = progress or SilentProgress()
    found = _read_folder(path) if path.is_dir() else _read_table(path, bars, separator)
    repeated = _repeated(row.query_id for row in found.rows)
    if repeated:
        first = ", ".join(f"'{one}'" for one in repeated[:_NAMED])
        others = f" and {len(repeated) - _NAMED} more" if len(repeated) > _NAMED else ""
        found.problems.append(
            f"query ids that stand twice: {first}{others}; a query has one split, and one row with "
            "all the routes it needs"
        )
    if not found.rows and not found.problems:
        found.problems.append("no query with a route")
    if found.problems:
        shown = [f"  {problem}" for problem in found.problems[:_SHOWN]]
        more = len(found.problems) - len(shown)
        shown += [f"  and {more} more"] if more else []
        raise LabelsError("\n".join([f"{path} has problems ({len(found.problems)}):", *shown]))
    return _table_of(found.rows)


def _table_of(rows: Sequence[_Row]) -> RouteTable:
    routes = tuple(sorted(set().union(*(row.routes for row in rows))))

    def column(name: str) -> Any:
        return np.array([getattr(row, name) for row in rows], dtype=object)

    needed = np.array([[route in row.routes for route in routes] for row in rows])
    return RouteTable(
        routes, column("query_id"), column("text"), column("source"), column("split"), needed
    )


def _read_folder(folder: Path) -> _Found:
    found = _Found()
    queries = next(
        (p for p in (folder / "queries.jsonl", folder / "queries.jsonl.gz") if p.is_file()), None
    )
    files = sorted(folder.glob("routes/*.tsv"))
    if queries is None or not files:
        lacking = ["queries.jsonl"] * (queries is None) + ["routes/*.tsv"] * (not files)
        found.problems.append(f"lacks {' and '.join(lacking)}")
        return found
    known = _read_queries(queries, found.problems)
    for file in files:
        split = _SPLIT_NAMES.get(file.stem)
        if split is None:
            allowed = ", ".join(f"{name}.tsv" for name in _SPLIT_NAMES)
            found.problems.append(f"routes/{file.name} is no known split; rename it to {allowed}")
            continue
        found.rows += _read_split(file, split, known, found.problems)
    return found


def _read_queries(path: Path, problems: list[str]) -> dict[str, tuple[str, str]]:
    """Query id → text and source."""
    known: dict[str, tuple[str, str]] = {}
    line_of: dict[str, int] = {}
    try:
        for number, line in numbered_lines(path):
            place = f"{path.name} line {number}"
            try:
                query = parse_query(line)
            except LineError as error:
                problems.append(f"{place}: {_line_problem(error)}")
                continue
            if not is_visible(query.text):
                problems.append(f"{place}: the text of '{query.query_id}' is empty")
            elif query.query_id in known:
                first = line_of[query.query_id]
                problems.append(
                    f"{place}: query id '{query.query_id}' stands in line {first} already"
                )
            source = query.metadata.get("source")
            named = source if isinstance(source, str) and source.strip() else "all"
            known.setdefault(query.query_id, (query.text, named))
            line_of.setdefault(query.query_id, number)
    except CorpusError as error:
        problems.append(str(error))
    return known


def _line_problem(error: LineError) -> str:
    return f"{PROBLEM_KINDS[error.kind][1]} ({error})"


def _read_split(
    path: Path, split: str, known: Mapping[str, tuple[str, str]], problems: list[str]
) -> list[_Row]:
    routes: dict[str, set[str]] = {}
    try:
        lines = list(numbered_lines(path))
    except CorpusError as error:
        problems.append(str(error))
        return []
    for number, line in lines:
        place = f"routes/{path.name} line {number}"
        try:
            parts = [part.strip() for part in decode(line).rstrip("\r\n").split("\t")]
        except LineError as error:
            problems.append(f"{place}: {_line_problem(error)}")
            continue
        if number == 1 and parts[0].lower() in COLUMNS["query_id"]:
            continue
        if len(parts) < 2 or not parts[0] or not parts[1]:
            problems.append(f"{place}: expected query id, tab, route; got {' | '.join(parts)[:60]}")
        elif parts[0] not in known:
            problems.append(f"{place}: query '{parts[0]}' is not in queries.jsonl")
        else:
            routes.setdefault(parts[0], set()).add(parts[1])
    return [
        _Row(query_id, *known[query_id], split, frozenset(needed))
        for query_id, needed in routes.items()
    ]


def _read_table(path: Path, progress: Progress, separator: str | None) -> _Found:
    found = _Found()
    if path.suffix.lower() not in ENDINGS:
        raise LabelsError(
            f"{path} is neither a folder with queries.jsonl and routes/*.tsv nor a table "
            f"({', '.join(ENDINGS)})"
        )
    with open_table(path) as opened:
        headers = {name.casefold(): name for name in reversed(opened.header) if name}
        columns = {
            key: headers[next(alias for alias in aliases if alias in headers)]
            for key, aliases in COLUMNS.items()
            if any(alias in headers for alias in aliases)
        }
        for key in ("query", "routes"):
            if key not in columns:
                found.problems.append(
                    f"no column '{key}' (or {', '.join(COLUMNS[key][1:])}); its columns are "
                    f"{', '.join(opened.header)}"
                )
        if found.problems:
            return found
        table = opened.read(list(columns.values()), progress)
    parsed_cells = [_routes_in(cell, separator) for cell in table.columns[columns["routes"]]]
    if separator is None:
        found.problems += _never_alone(table, columns["routes"], parsed_cells)
    for place, row in enumerate(table.rows):
        cells = {key: table.columns[name][place] for key, name in columns.items()}
        parsed = _parse_row(cells, parsed_cells[place], row, path.stem, found.problems)
        if parsed is not None:
            found.rows.append(parsed)
    return found


def _parse_row(
    cells: Mapping[str, Any],
    routes: frozenset[str],
    number: int,
    source: str,
    problems: list[str],
) -> _Row | None:
    wrong = [
        f"row {number}: the column of '{key}' is empty here"
        for key in ("query_id", "source", "split")
        if key in cells and parse_text(cells[key]) is None
    ]
    text = cells["query"]
    if not isinstance(text, str) or not is_visible(text):
        wrong.append(f"row {number}: the query is {'empty' if text is None else repr(text)}")
    if not routes:
        wrong.append(f"row {number}: no route")
    given = cells.get("split")
    split = _SPLIT_NAMES.get(str(given).strip().lower()) if "split" in cells else "train"
    if split is None and given is not None:
        wrong.append(f"row {number}: split is {', '.join(SPLITS)}, got '{given}'")
    problems += wrong
    if wrong or split is None or not isinstance(text, str):
        return None
    named = cells.get("query_id")
    return _Row(
        parse_text(named) or str(number),
        composed(text),
        source if cells.get("source") is None else composed(str(cells["source"])),
        split,
        routes,
    )


def _routes_in(cell: Any, separator: str | None) -> frozenset[str]:
    """Return the routes that a cell names."""
    parts: Iterable[Any]
    if isinstance(cell, str):
        parts = _parts(cell.strip(), separator)
    elif isinstance(cell, list | tuple):
        parts = cell
    else:
        parts = [] if cell is None else [cell]
    names = (str(part).strip().strip("'\"") for part in parts)
    return frozenset(composed(name) for name in names if name)


def _parts(cell: str, separator: str | None) -> Sequence[Any]:
    if _is_list(cell):
        try:
            parsed = json.loads(cell)
        except ValueError:  # a list as Python writes it, or names without quotes
            return cell[1:-1].split(",")
        return parsed if isinstance(parsed, list) else [parsed]
    if separator == ONE_ROUTE:
        return [cell]
    marks = BETWEEN if separator is None else (separator,)
    return re.split("|".join(map(re.escape, marks)), cell)


def _is_list(cell: str) -> bool:
    return cell.startswith("[") and cell.endswith("]")


def _never_alone(
    table: SourceTable, column: str, routes: Sequence[frozenset[str]]
) -> Iterator[str]:
    """Tell of cells split at a mark whose parts stand alone nowhere: it may belong to a name."""
    alone = {name for one in routes if len(one) == 1 for name in one}
    told: dict[str, int] = {}
    for cell, row, names in zip(table.columns[column], table.rows, routes, strict=True):
        is_split = isinstance(cell, str) and len(names) > 1 and not _is_list(cell.strip())
        if is_split and names - alone:
            told.setdefault(cell.strip(), row)
    for cell, row in told.items():
        parts = sorted(_routes_in(cell, None))
        absent = [name for name in parts if name not in alone]
        mark = next(mark for mark in BETWEEN if mark in cell)
        stand = "stands" if len(absent) == 1 else "stand"
        yield (
            f"row {row}: '{cell}' may be one route, or {' and '.join(parts)}, and "
            f"{', '.join(absent)} {stand} alone in no row; say which: --separator {ONE_ROUTE}, or "
            f"--separator '{mark}'"
        )


def _repeated(names: Iterable[str]) -> list[str]:
    seen: set[str] = set()
    twice = dict.fromkeys(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return list(twice)
