"""Tables of other people: CSV, TSV, XLSX and parquet as columns of plain values.

A file is streamed, and only the wanted columns are kept.
"""

from __future__ import annotations

import csv
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from arms.errors import LabelsError
from arms.progress import Progress
from arms.read_errors import why_absent
from arms.text_form import composed
from oracle.importing.workbook import open_sheet

ENDINGS = (".csv", ".tsv", ".xlsx", ".parquet")
_LONGEST_CELL_CHARACTERS = 16 << 20
_DAMAGE = (
    *(csv.Error, zipfile.BadZipFile, zlib.error),
    *(EOFError, KeyError, OSError, SyntaxError, TypeError, ValueError),
)
"""What readers of damaged files raise; errors of XML are a SyntaxError, of Arrow a ValueError, and
openpyxl raises a TypeError where a part isn't what it should be."""

Rows = Callable[[Sequence[int]], Iterator[Sequence[Any]]]
"""Places of the wanted columns → the cells of each row, in that order."""


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

    def __init__(self, path: Path, header: Sequence[Any], rows: Rows) -> None:
        self.path = path
        self.header = [_header_text(cell) for cell in header]
        self._rows = rows

    def read(self, wanted: Sequence[str], progress: Progress) -> SourceTable:
        """Read the wanted columns of every row in which one of them holds something.

        Raises:
            LabelsError: a wanted column stands twice, or the file is damaged; the last row that
                could be read is named.
        """
        columns: list[list[Any]] = [[] for _ in wanted]
        numbers: list[int] = []
        number = 1
        repeated = [name for name in wanted if self.header.count(name) > 1]
        if repeated:
            raise LabelsError(
                f"{self.path} has more than one column {', '.join(repeated)}; keep one, or rename "
                "the others"
            )
        places = [self.header.index(name) for name in wanted]
        with progress.task(f"read {self.path.name}") as bar:
            try:
                for number, row in enumerate(self._rows(places), start=2):
                    cells = [None if _is_empty(cell) else cell for cell in row]
                    if any(cell is not None for cell in cells):
                        numbers.append(number)
                        for column, cell in zip(columns, cells, strict=True):
                            column.append(cell)
                    bar.advance()
            except _DAMAGE as error:
                raise LabelsError(
                    f"{self.path} can't be read after row {number} ({error}); save it again, text "
                    "as UTF-8 with one record a row"
                ) from error
        return SourceTable(dict(zip(wanted, columns, strict=True)), numbers)


def _picked(rows: Iterable[Sequence[Any]]) -> Rows:
    """Rows of which the wanted places are picked; a place beyond a row's end is empty."""

    def pick(places: Sequence[int]) -> Iterator[Sequence[Any]]:
        for row in rows:
            yield [row[place] if place < len(row) else None for place in places]

    return pick


@contextmanager
def open_table(path: Path, sheet: str | None = None) -> Iterator[OpenTable]:
    """Open a table by its ending and read its header, the first row.

    Args:
        path: ends in one of ``ENDINGS``.
        sheet: name of an XLSX file's sheet; default: the first visible one.

    Raises:
        LabelsError: no such file, another format, a damaged file, an unknown sheet, no header.
        MissingExtraError: openpyxl is needed and isn't installed.
    """
    if not path.is_file():
        raise LabelsError(f"{why_absent(path)}; give a table ({', '.join(ENDINGS)})")
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
    return "" if cell is None else composed(str(cell)).strip()


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
    return OpenTable(path, header, _picked(_not_longer(rows, len(header))))


def _not_longer(rows: Iterable[list[str]], width: int) -> Iterator[list[str]]:
    """Yield the rows; raise ``csv.Error`` at one with more cells than there are columns."""
    for row in rows:
        if any(cell.strip() for cell in row[width:]):
            raise csv.Error(
                f"the next row has {len(row)} cells and the header {width}; put quotes around "
                "cells that hold the delimiter"
            )
        yield row


def _parquet(path: Path) -> OpenTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise LabelsError(f"{path} is no readable parquet file ({error})") from error

    names = file.schema_arrow.names

    def rows(places: Sequence[int]) -> Iterator[Sequence[Any]]:
        wanted = [names[place] for place in places]
        for batch in file.iter_batches(batch_size=8192, columns=wanted):
            yield from zip(*(batch.column(name).to_pylist() for name in wanted), strict=True)

    return OpenTable(path, names, rows)


@contextmanager
def _xlsx(path: Path, sheet: str | None) -> Iterator[OpenTable]:
    with open_sheet(path, sheet) as rows:
        try:
            header = next(rows, None)
        except (*_DAMAGE, IndexError) as error:
            raise LabelsError(f"{path} is no readable XLSX file ({error})") from error
        if not header or all(cell is None for cell in header):
            raise LabelsError(f"{path} is empty; its first row should name the columns")
        yield OpenTable(path, header, _picked(rows))
