"""XLSX files: which sheet is read, and what merged cells hold.

Format: ECMA-376 (Office Open XML), part 1, sections 18.2 and 18.3.
"""

from __future__ import annotations

import logging
import posixpath
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal
from xml.etree import ElementTree

from arms.errors import LabelsError
from arms.extras import not_importable
from arms.text_form import composed

DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
    *(EOFError, KeyError, OSError, SyntaxError, TypeError, ValueError),
)
"""What openpyxl and zipfile raise on damaged files; errors of XML are a SyntaxError."""

_SPREADSHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_STRICT = "{http://purl.oclc.org/ooxml/spreadsheetml/main}"
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z]+)(\d+):([A-Z]+)(\d+)"')
_CHUNK_BYTES = 1 << 20
_LONGEST_TAG_BYTES = 512
_IN_MEMORY_BYTES = 64 << 20

_log = logging.getLogger(__name__)

Kind = Literal["visible", "hidden", "chart"]


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """One sheet as the workbook lists it."""

    name: str
    kind: Kind
    part: str
    """Name of the sheet's file inside the archive."""

    @property
    def display_name(self) -> str:
        """The name, and what is unusual about the sheet."""
        notes = {"visible": "", "hidden": " (hidden)", "chart": " (a chart)"}
        return f"'{self.name}'{notes[self.kind]}"


@dataclass(frozen=True, slots=True)
class MergedRange:
    """Cells that are shown as one; rows and columns count from 1 and 0, ends included."""

    first_row: int
    last_row: int
    first_column: int
    last_column: int


@contextmanager
def open_sheet(path: Path, sheet: str | None) -> Iterator[Iterator[Sequence[Any]]]:
    """Yield the rows of a sheet, the header first; a merged cell's value stands in all its cells.

    Without a name, the first visible sheet of cells is read; where there are several sheets, a
    warning says which one was read and names the others. Cells merged with the header row aren't
    filled: each column needs a header of its own.

    Raises:
        LabelsError: the file is damaged; no such sheet, or it holds a chart; none is visible.
        MissingExtraError: openpyxl isn't installed.
    """
    try:
        import openpyxl
    except ImportError as error:
        raise not_importable(error, "openpyxl", "xlsx") from error
    with (
        path.open("rb") as stream,  # openpyxl itself leaves a file open that it can't read
        tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as copy,
    ):
        try:
            with zipfile.ZipFile(stream) as archive:
                main = _main_part(archive)
                sheets = _sheets(archive, main)
                chosen = _chosen(path, sheets, sheet)
                merged = _merged_ranges(archive, chosen.part)
                charts = [one for one in sheets if one.kind == "chart"]
                if charts:
                    _copy_without(archive, main, charts, copy)
            source = copy if charts else stream
            book = openpyxl.load_workbook(source, read_only=True, data_only=True)
            cells = book[chosen.name]
            cells.reset_dimensions()  # a sheet's stated size may be wrong
            rows = cells.iter_rows(values_only=True)
        except (*DAMAGE, AttributeError, IndexError) as error:
            raise LabelsError(f"{path} is no readable XLSX file ({error})") from error
        others = [one.display_name for one in sheets if one is not chosen]
        if others and sheet is None:
            _log.warning(
                "%s: reading the sheet '%s', the first visible one; other sheets: %s (l2r import "
                "reads another with --sheet NAME)",
                *(path.name, chosen.name, ", ".join(others)),
            )
        yield filled(rows, merged) if merged else rows


def filled(rows: Iterable[Sequence[Any]], merged: Sequence[MergedRange]) -> Iterator[Sequence[Any]]:
    """Yield the rows, the first of them row 1, with merged ranges below row 1 filled."""
    waiting = sorted(
        (one for one in merged if one.first_row > 1), key=lambda one: one.first_row, reverse=True
    )
    now: list[tuple[MergedRange, Any]] = []
    for number, row in enumerate(rows, start=1):
        now = [(one, value) for one, value in now if one.last_row >= number]
        while waiting and waiting[-1].first_row <= number:
            one = waiting.pop()
            now.append((one, row[one.first_column] if one.first_column < len(row) else None))
        if not now:
            yield row
            continue
        cells = list(row)
        for one, value in now:
            cells += [None] * (one.last_column + 1 - len(cells))
            cells[one.first_column : one.last_column + 1] = [value] * (
                one.last_column + 1 - one.first_column
            )
        yield cells


def _chosen(path: Path, sheets: Sequence[SheetEntry], wanted: str | None) -> SheetEntry:
    listed = ", ".join(one.display_name for one in sheets)
    if wanted is None:
        found = next((one for one in sheets if one.kind == "visible"), None)
        if found is None:
            raise LabelsError(
                f"{path.name} has no visible sheet of cells; it has: {listed or 'none'}; show one, "
                "or name one (l2r import: --sheet NAME)"
            )
        return found
    named = [one for one in sheets if composed(one.name) == composed(wanted)]
    if not named:
        raise LabelsError(f"{path.name} has no sheet '{wanted}'; it has: {listed}")
    if named[0].kind == "chart":
        raise LabelsError(
            f"the sheet '{wanted}' of {path.name} holds a chart and no cells; it has: {listed}"
        )
    return named[0]


def _main_part(archive: zipfile.ZipFile) -> str:
    """Return the part that lists the sheets, by default ``xl/workbook.xml``."""
    targets = [
        _inside("", one.get("Target", ""))
        for one in ElementTree.fromstring(archive.read("_rels/.rels"))
        if one.get("Type", "").endswith("/officeDocument")
    ]
    if not targets:
        raise KeyError("it names no workbook")
    return targets[0]


def _copy_without(
    archive: zipfile.ZipFile, main: str, charts: Sequence[SheetEntry], target: IO[bytes]
) -> None:
    """Copy a workbook without its chart sheets: openpyxl can't open one that holds no chart."""
    unwanted = {one.name for one in charts}
    book = ElementTree.fromstring(archive.read(main))
    for parent in list(book.iter()):
        for child in list(parent):
            name = child.tag.rpartition("}")[2]
            if name == "definedNames" or (name == "sheet" and child.get("name") in unwanted):
                parent.remove(child)
    parts = {one.part for one in charts}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as copy:
        for name in archive.namelist():
            if name == main:
                copy.writestr(name, ElementTree.tostring(book))
            elif name not in parts:
                with archive.open(name) as read, copy.open(name, "w") as written:
                    shutil.copyfileobj(read, written)


def _sheets(archive: zipfile.ZipFile, part: str) -> list[SheetEntry]:
    """Return the workbook's sheets in their order on screen."""
    folder, name = posixpath.split(part)
    relations = {
        one.get("Id"): (one.get("Type", ""), _inside(folder, one.get("Target", "")))
        for one in ElementTree.fromstring(archive.read(f"{folder}/_rels/{name}.rels"))
    }
    sheets = []
    for one in ElementTree.fromstring(archive.read(part)).iter():
        if one.tag not in (f"{_SPREADSHEET}sheet", f"{_STRICT}sheet"):
            continue
        relation = next((value for key, value in one.items() if key.endswith("}id")), None)
        kind, target = relations.get(relation, ("", ""))
        hidden = one.get("state", "visible") != "visible"
        cells = kind.endswith("/worksheet")
        sheets.append(
            SheetEntry(
                one.get("name", ""),
                "chart" if not cells else "hidden" if hidden else "visible",
                target,
            )
        )
    return sheets


def _inside(folder: str, target: str) -> str:
    """Return the part that a relationship names, which may be relative to ``folder``."""
    return posixpath.normpath(posixpath.join("/" + folder, target)).lstrip("/")


def _merged_ranges(archive: zipfile.ZipFile, part: str) -> list[MergedRange]:
    """Return the sheet's merged ranges; they stand behind its cells, so the file is streamed."""
    found: dict[tuple[bytes, ...], None] = {}
    rest = b""
    with archive.open(part) as stream:
        while block := stream.read(_CHUNK_BYTES):
            rest += block
            found.update((match.groups(), None) for match in _MERGED.finditer(rest))
            rest = rest[-_LONGEST_TAG_BYTES:]
    return [
        MergedRange(int(top), int(bottom), _column(left), _column(right))
        for left, top, right, bottom in found
    ]


def _column(letters: bytes) -> int:
    """Return the place of column ``A``, ``B``, … ``AA``, from 0."""
    place = 0
    for letter in letters:
        place = place * 26 + letter - ord("A") + 1
    return place - 1
