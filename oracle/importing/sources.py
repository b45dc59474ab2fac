"""Tables of other people: CSV, TSV, XLSX and parquet as columns of plain values.

A file is streamed, and only the wanted columns are kept.
"""

from __future__ import annotations

import csv
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from arms.errors import LabelsError, MissingExtraError
from arms.progress import Progress

ENDINGS = (".csv", ".tsv", ".xlsx", ".parquet")
_LONGEST_CELL_CHARACTERS = 16 << 20


@dataclass(frozen=True)
class SourceTable:
    """Named columns of a table; cells are text, numbers, booleans or None where empty."""

    columns: dict[str, list[Any]]
    """Header → N cells."""
    rows: list[int]
    """(N,) number of each row as a spreadsheet counts: the header is row 1."""

    def __len__(self) -> int:
        return len(self.rows)


class OpenTable:
    """A table whose header was read and whose rows are still to come, once."""

    def __init__(self, path: Path, header: Sequence[Any], rows: Iterator[Sequence[Any]]) -> None:
        self.path = path
        self.header = [_header_text(cell) for cell in header]
        self._rows = rows

    def read(self, wanted: Sequence[str], progress: Progress) -> SourceTable:
        """Read the wanted columns of every row that isn't wholly empty."""
        places = [self.header.index(name) for name in wanted]
        columns: list[list[Any]] = [[] for _ in wanted]
        numbers: list[int] = []
        with progress.task(f"read {self.path.name}") as bar:
            try:
                for number, row in enumerate(self._rows, start=2):
                    cells = [row[place] if place < len(row) else None for place in places]
                    cells = [None if _is_empty(cell) else cell for cell in cells]
                    if any(cell is not None for cell in cells):
                        numbers.append(number)
                        for column, cell in zip(columns, cells, strict=True):
                            column.append(cell)
                    bar.advance()
            except (csv.Error, UnicodeDecodeError) as error:
                raise LabelsError(
                    f"{self.path} can't be read after row {numbers[-1] if numbers else 1} "
                    f"({error}); save it again as UTF-8 text with one record a row"
                ) from error
        return SourceTable(dict(zip(wanted, columns, strict=True)), numbers)


@contextmanager
def open_table(path: Path, sheet: str | None = None) -> Iterator[OpenTable]:
    """Open a table by its ending and read its header, the first row.

    Args:
        path: ends in one of ``ENDINGS``.
        sheet: name of an XLSX file's sheet; default: the first.

    Raises:
        LabelsError: no such file, another format, a damaged file, an unknown sheet, no header.
        MissingExtraError: openpyxl is needed and isn't installed.
    """
    if not path.is_file():
        raise LabelsError(f"{path} is not a file; give a table ({', '.join(ENDINGS)})")
    ending = path.suffix.lower()
    if sheet is not None and ending != ".xlsx":
        raise LabelsError(f"--sheet names a sheet of an .xlsx file; {path.name} is none")
    if ending == ".xlsx":
        with _xlsx(path, sheet) as table:
            yield table
    elif ending == ".parquet":
        yield _parquet(path)
    elif ending in (".csv", ".tsv"):
        with path.open(encoding="utf-8-sig", newline="") as stream:
            yield _csv(path, stream, "\t" if ending == ".tsv" else None)
    else:
        raise LabelsError(f"{path.name}: tables end in {', '.join(ENDINGS)}; convert it to one")


def _header_text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _csv(path: Path, stream: IO[str], delimiter: Literal["\t"] | None) -> OpenTable:
    csv.field_size_limit(min(_LONGEST_CELL_CHARACTERS, sys.maxsize))
    try:
        first = stream.readline()
        stream.seek(0)
        if delimiter is None and first.count(";") > first.count(","):
            rows = csv.reader(stream, delimiter=";", strict=True)
        else:
            rows = csv.reader(stream, delimiter=delimiter or ",", strict=True)
        header = next(rows, None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise LabelsError(f"{path} is no UTF-8 text with a header ({error})") from error
    if not header:
        raise LabelsError(f"{path} is empty; its first row should name the columns")
    return OpenTable(path, header, rows)


def _parquet(path: Path) -> OpenTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(f"{path} is no readable parquet file ({error})") from error

    def rows() -> Iterator[Sequence[Any]]:
        for batch in file.iter_batches(batch_size=8192):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)

    return OpenTable(path, file.schema_arrow.names, rows())


@contextmanager
def _xlsx(path: Path, sheet: str | None) -> Iterator[OpenTable]:
    try:
        import openpyxl
    except ImportError as error:
        raise MissingExtraError("openpyxl", "xlsx") from error
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise LabelsError(f"{path} is no readable XLSX file ({error})") from error
    try:
        if sheet is not None and sheet not in book.sheetnames:
            raise LabelsError(
                f"{path.name} has no sheet '{sheet}'; it has: {', '.join(book.sheetnames)}"
            )
        chosen = book[sheet] if sheet is not None else book.worksheets[0]
        chosen.reset_dimensions()  # a sheet's stated size may be wrong
        rows = chosen.iter_rows(values_only=True)
        header = next(rows, None)
        if not header or all(cell is None for cell in header):
            raise LabelsError(f"{path} is empty; its first row should name the columns")
        yield OpenTable(path, header, rows)
    finally:
        book.close()
