"""A user's own log of outcomes: a table with one row per query that was served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError
from arms.progress import Progress, SilentProgress
from arms.reward import FloatArray
from oracle.importing.sources import SourceTable, open_table

NEEDED = ("query", "arm", "quality", "latency_ms")
PROPENSITY = "propensity"
"""Optional: how likely the arm was to be run. Without it every arm counts as equally likely."""
_SHOWN = 3


@dataclass(frozen=True)
class OutcomeLog:
    """n rows of a log; all parts run parallel."""

    queries: tuple[str, ...]
    columns: NDArray[np.intp]
    """(n,) places of the arms that were run."""
    quality: FloatArray
    """(n,) in [0, 1]."""
    latency_ms: FloatArray
    """(n,)."""
    propensity: FloatArray
    """(n,) in (0, 1]."""


def read_outcomes(path: Path, arms: Sequence[str], progress: Progress | None = None) -> OutcomeLog:
    """Read a CSV, TSV, XLSX or Parquet file: query, arm, quality, latency_ms, propensity.

    Further columns, a dataset say, are ignored. ``propensity`` may be left out.

    Raises:
        LabelsError: the file is absent or unreadable, lacks a column, or has values that can't be;
            every kind of problem is told, each with its first rows, the header being row 1.
        MissingExtraError: an XLSX file, and openpyxl isn't installed.
    """
    with open_table(path) as opened:
        missing = [name for name in NEEDED if name not in opened.header]
        if missing:
            raise LabelsError(
                f"{path} lacks the columns {', '.join(missing)}; a log needs {', '.join(NEEDED)}, "
                f"and may have {PROPENSITY}; it has {', '.join(opened.header)}"
            )
        wanted = [name for name in (*NEEDED, PROPENSITY) if name in opened.header]
        table = opened.read(wanted, progress or SilentProgress())
    if not len(table):
        raise LabelsError(f"{path} has no rows; a log needs one for each query that was served")
    places = {arm: place for place, arm in enumerate(arms)}
    queries = [one if isinstance(one, str) else "" for one in table.columns["query"]]
    columns = np.array([places.get(str(arm), -1) for arm in table.columns["arm"]])
    quality, latency_ms = _numbers(table, "quality"), _numbers(table, "latency_ms")
    propensity = np.full(len(table), 1.0 / len(arms))
    if PROPENSITY in wanted:
        propensity = _numbers(table, PROPENSITY)
    wrong = {
        "'query' must be text": np.array([not one.strip() for one in queries]),
        f"'arm' must be one of {', '.join(arms)}": columns < 0,
        "'quality' must be a number in [0, 1]": ~((quality >= 0) & (quality <= 1)),
        "'latency_ms' must be a number of at least 0": ~((latency_ms >= 0) & (latency_ms < np.inf)),
        "'propensity' must be a number above 0 and at most 1": ~(
            (propensity > 0) & (propensity <= 1)
        ),
    }
    problems = [
        f"  {rule}: {_rows_told(table, rule, rows)}" for rule, rows in wrong.items() if rows.any()
    ]
    if problems:
        raise LabelsError("\n".join([f"{path} has problems:", *problems]))
    return OutcomeLog(tuple(queries), columns.astype(np.intp), quality, latency_ms, propensity)


def _numbers(table: SourceTable, name: str) -> FloatArray:
    """(n,) NaN where a value is absent or no number."""

    def number(value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            return float("nan")

    return np.array([number(one) for one in table.columns[name]])


def _rows_told(table: SourceTable, rule: str, rows: NDArray[np.bool_]) -> str:
    cells = table.columns[rule.split("'")[1]]
    first = np.flatnonzero(rows)[:_SHOWN].tolist()
    told = ", ".join(f"row {table.rows[row]} has {_told(cells[row])}" for row in first)
    more = int(rows.sum()) - len(first)
    return f"{told}, and {more} more" if more else told


def _told(cell: Any) -> str:
    return "nothing" if cell is None else f"{cell!r:.60}"
