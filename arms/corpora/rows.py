"""Rows of Parquet, JSON-lines and tab-separated tables, and what their columns are called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from arms.corpora.folder_walk import files_below
from arms.corpora.lines import decode, numbered_lines
from arms.corpora.pdf import MediaError
from arms.corpora.problems import LineError
from arms.errors import CorpusError
from arms.settings import FieldName, TableName
from arms.text_form import is_visible

Row = dict[str, Any]

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".tsv", ".tsv.gz")
BATCH_ROWS = 16
"""Rows in memory at a time; each may hold a picture."""

COLUMNS: dict[TableName, dict[FieldName, tuple[str, ...]]] = {
    "corpus": {
        "document_id": ("corpus-id", "_id", "corpus_id", "id", "image_filename"),
        "text": ("text", "markdown", "ocr_text", "vlm_text"),
        "title": ("title",),
        "image": ("image", "image_binary"),
        "pdf": ("pdf",),
        "page": ("page",),
    },
    "queries": {
        "query_id": ("query-id", "_id", "query_id", "id"),
        "query": ("query", "text", "question"),
    },
    "qrels": {
        "query_id": ("query-id", "query_id"),
        "document_id": ("corpus-id", "corpus_id"),
        "grade": ("score",),
    },
    "rows": {
        "document_id": ("image_filename", "corpus-id", "context_id"),
        "text": ("text", "context", "markdown"),
        "title": ("title",),
        "image": ("image", "image_binary"),
        "pdf": ("pdf",),
        "page": (),
        "query_id": (),
        "query": ("query", "question"),
    },
}
"""Table → field → the columns that are looked for, in this order. ViDoRe, MTEB and BEIR names."""

NEEDED: dict[TableName, tuple[FieldName, ...]] = {
    "corpus": ("document_id",),
    "queries": ("query_id", "query"),
    "qrels": ("query_id", "document_id"),
    "rows": ("query",),
}


def find_tables(folder: Path, globs: Mapping[TableName, str]) -> dict[TableName, list[Path]]:
    """Return the files of each table, in the order of their paths.

    Without a glob for it, a table is ``<name>.<suffix>``, ``<name>-*.<suffix>`` or any file below
    a folder ``<name>/``. Where there is no corpus, all files are ``rows``: a query with its
    page each.
    """
    files = [path for path in files_below(folder)[0] if path.name.endswith(SUFFIXES)]
    found: dict[TableName, list[Path]] = {}
    names: tuple[TableName, ...] = ("corpus", "queries", "qrels")
    for name in names:
        if name in globs:
            found[name] = sorted(path for path in folder.glob(globs[name]) if path.is_file())
        elif "rows" not in globs:
            found[name] = [path for path in files if _belongs(path.relative_to(folder), name)]
    if "rows" in globs:
        found["rows"] = sorted(path for path in folder.glob(globs["rows"]) if path.is_file())
    elif not found["corpus"]:
        found = {"rows": files}
    return {name: paths for name, paths in found.items() if paths}


def _belongs(path: Path, name: str) -> bool:
    stem = path.name.split(".")[0]
    return name in path.parts[:-1] or stem == name or stem.startswith(f"{name}-")


def read_rows(path: Path) -> Iterator[tuple[int, Row | MediaError]]:
    """Yield ``(number from 1, row)``; in place of a line that isn't a row stands why.

    Raises:
        MediaError: the table can't be read, or not to its end.
    """
    try:
        if path.name.endswith(".parquet"):
            yield from enumerate(_parquet_rows(path), start=1)
        elif path.name.endswith((".tsv", ".tsv.gz")):
            yield from _tsv_rows(path)
        else:
            for number, line in numbered_lines(path):
                yield number, _json_row(line, number)
    except MediaError:
        raise
    except (OSError, ValueError, EOFError, CorpusError) as error:
        raise MediaError("damaged_table", str(error)) from error


def _json_row(line: bytes, number: int) -> Row | MediaError:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        return MediaError("malformed_json", f"line {number}: {error}")
    if isinstance(row, dict):
        return row
    return MediaError("malformed_json", f"line {number}: expected an object, got {row!r:.40}")


def _parquet_rows(path: Path) -> Iterator[Row]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as table:
        for batch in table.iter_batches(batch_size=BATCH_ROWS):
            yield from batch.to_pylist()


def _tsv_rows(path: Path) -> Iterator[tuple[int, Row | MediaError]]:
    """Yield line numbers and rows; the first line names the columns, quotes mean nothing."""
    names: list[str] | None = None
    for number, line in numbered_lines(path):
        try:
            cells = decode(line).rstrip("\r\n").split("\t")
        except LineError as error:
            yield number, MediaError(error.kind, f"line {number}: {error}")
            continue
        if names is None:
            names = [cell.strip() for cell in cells]
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise MediaError("damaged_table", f"has two columns '{twice[0]}'; rename one")
        elif len(cells) != len(names):
            yield number, MediaError("malformed_row", _ragged(number, cells, names))
        else:
            yield number, dict(zip(names, cells, strict=True))


def _ragged(number: int, cells: list[str], names: list[str]) -> str:
    return f"line {number}: expected {len(names)} columns ({', '.join(names)}), got {len(cells)}"


class Fields:
    """Where each field of one table's rows is found.

    A given name with ``{`` is a template over the columns, ``{file_name}::p{page}``; any other is
    a column, and where this table hasn't got it, the usual names are looked for.
    """

    def __init__(self, table: TableName, given: Mapping[FieldName, str]) -> None:
        self.table = table
        self._given = given

    def value(self, row: Row, field: FieldName) -> Any:
        """Return the field's value; None where the row has none."""
        given = self._given.get(field, "")
        if "{" not in given:
            names = (given, *COLUMNS[self.table].get(field, ()))
            return next((row[name] for name in names if row.get(name) is not None), None)
        try:
            return given.format_map(row)
        except (KeyError, ValueError, IndexError, AttributeError, TypeError):
            return None

    def text(self, row: Row, field: FieldName) -> str:
        """Return the field as text; empty where the row has none."""
        value = self.value(row, field)
        if isinstance(value, float) and value.is_integer():  # ids beside empty cells
            return str(int(value))
        return "" if value is None or value != value else str(value)

    def has(self, row: Row, field: FieldName) -> bool:
        """Whether the row's table has a column for the field, or all columns of its template."""
        given = self._given.get(field, "")
        if "{" in given:
            return _formats(given, row)
        return any(name in row for name in (given, *COLUMNS[self.table].get(field, ())) if name)

    def empty_keys(self, row: Row) -> list[str]:
        """Return what to say of fields of ids that the row lacks, though its table has them.

        A row without a query needs no query id, and a row with its page is named by its picture.
        """
        needed = [field for field in NEEDED[self.table] if field != "query"]
        if self.table == "rows" and is_visible(self.text(row, "query")):
            needed = ["query_id"] if self.has(row, "query_id") else []
        return [f"no {field}" for field in needed if not is_visible(self.text(row, field))]

    def missing(self, row: Row) -> list[str]:
        """Return the needed fields that a table with such a row lacks, with the names tried."""
        lacking = []
        for field in NEEDED[self.table]:
            given = self._given.get(field, "")
            names = [name for name in (given, *COLUMNS[self.table][field]) if name]
            if not any(name in row for name in names) and self.value(row, field) is None:
                lacking.append(f"'{field}' ({' or '.join(names)})")
        return lacking

    def used(self, row: Row) -> set[FieldName]:
        """Return the given fields whose column, or all of whose template's, such a row has."""
        return {
            field
            for field, name in self._given.items()
            if (name in row if "{" not in name else _formats(name, row))
        }


def _formats(template: str, row: Row) -> bool:
    try:
        template.format_map(row)
    except (KeyError, ValueError, IndexError, AttributeError, TypeError):
        return False
    return True
