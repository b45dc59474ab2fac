"""A user's own log of outcomes: a table with one row per query that was served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from arms.errors import LabelsError
from arms.reward import FloatArray

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


def read_outcomes(path: Path, arms: Sequence[str]) -> OutcomeLog:
    """Read a Parquet or CSV file with the columns query, arm, quality, latency_ms, propensity.

    Further columns, a dataset say, are ignored. ``propensity`` may be left out.

    Raises:
        LabelsError: the file is absent or unreadable, lacks a column, or has values that can't be;
            every kind of problem is told, each with its first rows.
    """
    table = _read(path)
    missing = [name for name in NEEDED if name not in table.column_names]
    if missing:
        raise LabelsError(
            f"{path} lacks the columns {', '.join(missing)}; a log needs {', '.join(NEEDED)}, and "
            f"may have {PROPENSITY}; it has {', '.join(table.column_names)}"
        )
    if not len(table):
        raise LabelsError(f"{path} has no rows; a log needs one for each query that was served")
    places = {arm: place for place, arm in enumerate(arms)}
    queries = [one if isinstance(one, str) else "" for one in table["query"].to_pylist()]
    columns = np.array([places.get(str(arm), -1) for arm in table["arm"].to_pylist()])
    quality, latency_ms = _numbers(table, "quality"), _numbers(table, "latency_ms")
    propensity = np.full(len(table), 1.0 / len(arms))
    if PROPENSITY in table.column_names:
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


def _read(path: Path) -> pa.Table:
    readers = {".parquet": pq.read_table, ".csv": pa_csv.read_csv}
    if path.suffix not in readers:
        raise LabelsError(f"{path} must end in .parquet or .csv")
    try:
        return readers[path.suffix](path)
    except FileNotFoundError as error:
        raise LabelsError(f"{path} is not a file; give the log of outcomes") from error
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(f"{path} can't be read ({error})") from error


def _numbers(table: pa.Table, name: str) -> FloatArray:
    """(n,) NaN where a value is absent or no number."""

    def number(value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            return float("nan")

    return np.array([number(one) for one in table[name].to_pylist()])


def _rows_told(table: pa.Table, rule: str, rows: NDArray[np.bool_]) -> str:
    name = rule.split("'")[1]
    first = np.flatnonzero(rows)[:_SHOWN]
    told = ", ".join(f"row {row + 1} has {table[name][int(row)].as_py()!r}" for row in first)
    more = int(rows.sum()) - len(first)
    return f"{told}, and {more} more" if more else told
