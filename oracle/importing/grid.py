"""Queries × arms as somebody's table has them, and the checks that make labels of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arms.text_form import is_visible
from oracle.importing.cells import KIND_OF_CODE, MISSING, OK, TEXT, Numbers
from oracle.importing.problems import Problems
from oracle.release.json_schema import STATUSES
from oracle.split import text_group

BoolArray = NDArray[np.bool_]
ObjectArray = NDArray[np.object_]
_SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}


@dataclass(frozen=True, eq=False)
class QueryRows:
    """Q queries; arrays run parallel."""

    datasets: ObjectArray
    """None where the table's cell is empty."""
    query_ids: ObjectArray
    """None where the table's cell is empty."""
    texts: ObjectArray | None
    """None: the table has no texts."""
    splits: ObjectArray | None
    """None: the table has no splits."""
    rows: NDArray[np.int64]
    """(Q,) row that introduces the query."""
    relevant_grades: ObjectArray | None = None
    """(Q,) lists of the grades above 0 of all judged documents, descending; None: the source has no
    judgements."""
    relevant_ids: ObjectArray | None = None
    """(Q,) lists of those documents, by grade, then id; None as there."""

    def __len__(self) -> int:
        return len(self.rows)

    def groups(self) -> ObjectArray:
        """(Q,) equal for queries of equal text; each its own where there are no texts."""
        if self.texts is None:
            keys = [f"{d}\x1f{q}" for d, q in zip(self.datasets, self.query_ids, strict=True)]
            return np.array([text_group(key) for key in keys], dtype=object)
        return np.array([text_group(text or "") for text in self.texts], dtype=object)


@dataclass(frozen=True, eq=False)
class Grid:
    """Q queries × P arms as read."""

    queries: QueryRows
    arms: tuple[str, ...]
    quality: dict[str, Numbers]
    """Measure → (Q, P); the first serves as quality."""
    latency_ms: Numbers
    """(Q, P)."""
    status: ObjectArray
    """(Q, P) as the table says, None where it says nothing."""
    rows: NDArray[np.int64]
    """(Q, P) row that each cell stands in."""
    column_of: Callable[[str, str], str]
    """(measure, ``latency`` or ``status``; arm) → header, for messages."""

    def taken(self, kept: BoolArray | NDArray[np.intp]) -> Grid:
        """Return the grid of the queries ``kept``: a mask (Q,), or numbers in the order wished."""

        def cut(numbers: Numbers) -> Numbers:
            return Numbers(numbers.values[kept], numbers.codes[kept])

        queries = self.queries
        return replace(
            self,
            queries=QueryRows(
                queries.datasets[kept],
                queries.query_ids[kept],
                None if queries.texts is None else queries.texts[kept],
                None if queries.splits is None else queries.splits[kept],
                queries.rows[kept],
                None if queries.relevant_grades is None else queries.relevant_grades[kept],
                None if queries.relevant_ids is None else queries.relevant_ids[kept],
            ),
            quality={name: cut(numbers) for name, numbers in self.quality.items()},
            latency_ms=cut(self.latency_ms),
            status=self.status[kept],
            rows=self.rows[kept],
        )


def check_queries(queries: QueryRows, columns: Mapping[str, str], problems: Problems) -> QueryRows:
    """Add what is wrong with ids, texts and splits; return the queries with splits as we write.

    ``columns``: ``query_id`` and the like → header, for messages.
    """
    splits = None if queries.splits is None else queries.splits.copy()
    ids: dict[tuple[str, Any], int] = {}
    texts: dict[tuple[str, str], int] = {}
    split_of: dict[str, tuple[str, int]] = {}
    groups = queries.groups()
    for place, (dataset, query_id, group, row) in enumerate(
        zip(queries.datasets, queries.query_ids, groups, queries.rows.tolist(), strict=True)
    ):
        if dataset is None:
            problems.add("no_dataset", columns.get("dataset", ""), row)
            continue
        if query_id is None:
            problems.add("no_query_id", columns.get("query_id", ""), row)
        elif ids.setdefault((dataset, query_id), row) != row:
            first = ids[dataset, query_id]
            name = columns.get("query_id", "query_id")
            problems.add("duplicate_query", name, row, f"as row {first}")
        if queries.texts is not None:
            name = columns.get("text", "text")
            if not is_visible(queries.texts[place] or ""):
                problems.add("empty_text", name, row)
                continue
            if texts.setdefault((dataset, group), row) != row:
                problems.add("duplicate_text", name, row, f"as row {texts[dataset, group]}")
        if splits is not None:
            name = columns.get("split", "split")
            given = splits[place]
            split = _SPLITS.get(str(given).strip().lower())
            if split is None:
                problems.add("unknown_split", name, row, "empty" if given is None else given)
                continue
            splits[place] = split
            first_split, first = split_of.setdefault(group, (split, row))
            if first_split != split:
                problems.add("torn_split", name, row, f"{first_split} in row {first}")
    return replace(queries, splits=splits)


def settle_status(grid: Grid, problems: Problems) -> ObjectArray:
    """Add what is wrong with the cells; return (Q, P) statuses.

    A cell with numbers and no status is ``ok``. An arm without any value throughout a dataset is
    ``skipped`` there: the dataset lacks it. One that lacks values on some queries is a problem,
    since nobody knows whether it failed.
    """
    given = np.array([[_status(cell) for cell in row] for row in grid.status], dtype=object)
    given = given.reshape(grid.status.shape)
    stated = given != None  # noqa: E711 – elementwise
    unknown = stated & ~np.isin(given, STATUSES)
    _add(grid, problems, unknown, "unknown_status", "status", lambda cell: grid.status[cell])
    numbers = {**grid.quality, "latency": grid.latency_ms}
    measured = np.any([one.codes != MISSING for one in numbers.values()], axis=0)
    lacking = ~measured & (~stated | (given == "skipped"))
    skipped = _lacking_throughout(grid, lacking, problems) | (~measured & (given == "skipped"))
    _add(grid, problems, lacking & ~skipped, "missing_arm", next(iter(grid.quality)))
    failed = np.isin(given, ("error", "timeout"))
    empty = given == "empty"
    status = np.where(skipped, "skipped", np.where(failed | empty, given, "ok")).astype(object)
    answered = ~skipped & ~failed & (measured | stated)
    for name, one in numbers.items():
        if name != "latency":
            wrong = (failed | (given == "skipped")) & (one.codes == OK)
            _add(grid, problems, wrong, "failure_with_value", name, _value_in(one))
        needed = answered & ~(empty & (name != "latency"))
        _add(grid, problems, needed & (one.codes == MISSING), "missing_value", name)
        for code, kind in KIND_OF_CODE.items():
            told = _text_in(one) if code == TEXT else None
            _add(grid, problems, answered & (one.codes == code), kind, name, told)
    for name, one in grid.quality.items():
        outside = answered & (one.codes == OK) & ~((one.values >= 0.0) & (one.values <= 1.0))
        _add(grid, problems, outside, "outside_range", name, _value_in(one))
        wrong = answered & empty & (one.values > 0.0)
        _add(grid, problems, wrong, "empty_with_quality", name, _value_in(one))
    latency = grid.latency_ms
    _add(grid, problems, answered & (latency.values == 0.0), "zero_latency", "latency")
    negative = answered & (latency.values < 0.0)
    _add(grid, problems, negative, "negative_latency", "latency", _value_in(latency))
    return status


def _status(cell: Any) -> str | None:
    return None if cell is None else str(cell).strip().lower()


def _lacking_throughout(grid: Grid, lacking: BoolArray, problems: Problems) -> BoolArray:
    """(Q, P) True where no query of the dataset has the arm; an arm that none has is a problem."""
    found = np.zeros_like(lacking)
    for dataset in set(grid.queries.datasets.tolist()):
        rows = grid.queries.datasets == dataset
        found[rows] = lacking[rows].all(axis=0)
    for place in np.flatnonzero(found.all(axis=0)) if len(found) else ():
        arm = grid.arms[place]
        problems.add("missing_arm", grid.column_of("latency", arm), None, f"{arm} has no value")
    return found


Shown = Callable[[tuple[int, int]], object]


def _value_in(numbers: Numbers) -> Shown:
    return lambda cell: f"{numbers.values[cell]:g}"


def _text_in(numbers: Numbers) -> Shown:
    return lambda cell: numbers.texts.get(cell, "")


def _add(
    grid: Grid,
    problems: Problems,
    wrong: BoolArray,
    kind: str,
    what: str,
    value: Shown | None = None,
) -> None:
    for query, place in np.argwhere(wrong).tolist():
        column = grid.column_of(what, grid.arms[place])
        told = "" if value is None else value((query, place))
        problems.add(kind, column, int(grid.rows[query, place]), told)


def numbers_of(columns: list[Numbers]) -> Numbers:
    """Put P columns of (Q,) numbers side by side: (Q, P)."""
    found = Numbers(
        np.stack([one.values for one in columns], axis=1),
        np.stack([one.codes for one in columns], axis=1),
    )
    for place, column in enumerate(columns):
        found.texts.update({(*index, place): text for index, text in column.texts.items()})
    return found
