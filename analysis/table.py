"""A table as data: typed columns, rows of plain values; how a value is written."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Literal

from analysis.bootstrap import Estimate

Kind = Literal[
    "text",
    "count",
    "lam",
    "quality",
    "ms",
    "share",
    "times",
    "change",
    "change_ms",
    "p",
    "share_fine",
]
Cell = str | int | float | Estimate | None
Row = tuple[Cell, ...]

UNDEFINED = "–"
MINUS = "−"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. ``kind`` says how its cells are written."""

    key: str
    """Header in the CSV, units included."""
    heading: str
    """Header in the report."""
    kind: Kind = "text"
    shown: bool = True
    """False: in the CSV only."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the report. The report shows ``shown_rows``, the CSV holds ``rows``."""

    name: str
    """File name without its ending."""
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    shown_rows: tuple[Row, ...]
    note: str = ""
    folded: bool = False
    """True: the page shows it when asked to."""
    latex: bool = False
    """True: one of the main tables, also written as LaTeX."""

    def shown_cells(self) -> tuple[tuple[Column, ...], list[tuple[str, ...]]]:
        """Return the shown columns, and every shown row as text."""
        kept = [i for i, column in enumerate(self.columns) if column.shown]
        columns = tuple(self.columns[i] for i in kept)
        rows = [tuple(write_cell(self.columns[i], row[i]) for i in kept) for row in self.shown_rows]
        return columns, rows


def write_cell(column: Column, cell: Cell) -> str:
    """Write one cell as a reader sees it; an undefined value is a dash."""
    if isinstance(cell, Estimate):
        return _write_estimate(column.kind, cell)
    if cell is None or cell != cell:  # NaN
        return UNDEFINED
    return cell if isinstance(cell, str) else write_number(column.kind, cell)


def write_number(kind: Kind, value: float) -> str:
    """Write a number with the digits that its kind deserves, and a true minus sign."""
    if kind == "count":
        text = f"{value:,.0f}"
    elif kind in ("ms", "change_ms"):
        text = _write_ms(value, signed=kind == "change_ms")
    elif kind == "p":
        text = "< 0.001" if value < 0.001 else f"{value:.3f}"
    elif kind == "share_fine":
        text = f"{100 * value:.1f} %"
    elif kind == "share":
        text = f"{100 * value:.0f} %"
    else:
        text = {
            "lam": f"{value:g}",
            "quality": f"{value:.3f}",
            "times": f"{value:.2f}×",
            "change": f"{value:+.3f}",
            "text": str(value),
        }[kind]
    return text.replace("-", MINUS)


def _write_ms(value: float, signed: bool) -> str:
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 1000 else 0
    return f"{value:{'+' if signed else ''},.{digits}f}"


def _write_estimate(kind: Kind, estimate: Estimate) -> str:
    if estimate.value is None:
        return "undefined" if kind == "share" else UNDEFINED
    value = write_number(kind, estimate.value)
    if estimate.low is None or estimate.high is None:
        return value
    return f"{value} [{write_number(kind, estimate.low)}, {write_number(kind, estimate.high)}]"


def write_csv(table: Table) -> str:
    """Write all rows and columns; an estimate takes three columns, an undefined value none.

    Numbers are rounded to 6 digits after the point, p-values to 6 significant ones, so that equal
    inputs give equal bytes whatever the order in which a library adds.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    estimates = [_holds_estimates(table, i) for i in range(len(table.columns))]
    header: list[str] = []
    for column, is_estimate in zip(table.columns, estimates, strict=True):
        header += [column.key]
        header += [f"{column.key}_low", f"{column.key}_high"] if is_estimate else []
    writer.writerow(header)
    for row in table.rows:
        cells: list[str] = []
        for column, cell, is_estimate in zip(table.columns, row, estimates, strict=True):
            if column.kind == "p" and isinstance(cell, float):
                cells.append("" if cell != cell else f"{cell:.6g}")
            else:
                cells += _csv_cells(cell, is_estimate)
        writer.writerow(cells)
    return text.getvalue()


def _holds_estimates(table: Table, column: int) -> bool:
    return any(isinstance(row[column], Estimate) for row in table.rows)


def _csv_cells(cell: Cell, is_estimate: bool) -> list[str]:
    if isinstance(cell, Estimate):
        return [_csv_number(part) for part in (cell.value, cell.low, cell.high)]
    text = cell if isinstance(cell, str) else _csv_number(cell)
    return [text, "", ""] if is_estimate else [text]


def _csv_number(value: float | int | None) -> str:
    if value is None or value != value:  # NaN
        return ""
    return str(value) if isinstance(value, int) else repr(round(float(value), 6) + 0.0)
