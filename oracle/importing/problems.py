"""What can be wrong with an imported table: collected with row numbers, told all at once."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from arms.errors import LabelsError

KINDS: dict[str, str] = {
    "missing_column": "a column is missing",
    "ambiguous_column": "a column stands there twice",
    "unit": "the unit of a latency isn't known",
    "no_row": "nothing is left to import",
    "missing_arm": "the arm has no value on this query, and others of the dataset have one",
    "missing_value": "a number is missing beside the arm's other ones",
    "text": "text where a number is expected",
    "nan": "NaN where a number is expected",
    "infinite": "an infinite number",
    "zero_latency": "a latency of 0: no clock measures that",
    "negative_latency": "a negative latency",
    "outside_range": "a quality outside [0, 1]",
    "unknown_status": "a status that is none of ok, empty, error, timeout, skipped",
    "failure_with_value": "a failed arm that has a quality",
    "empty_with_quality": "the status is empty and the quality isn't 0",
    "no_dataset": "no name of a dataset, in a table that has such a column",
    "no_query_id": "no query id",
    "empty_text": "no query text",
    "no_arm": "no name of an arm",
    "duplicate_query": "the dataset and query id of an earlier row",
    "duplicate_text": "the query text of an earlier row of the dataset",
    "duplicate_row": "the dataset, query and arm of an earlier row",
    "other_text": "another text than an earlier row gives the same query",
    "unknown_split": "a split that is none of train, val, test",
    "torn_split": "the query text of an earlier row, in another split",
    "unknown_query": "a query that neither the judgements nor a run have",
    "no_query_judged": "none of the run's queries is judged; it belongs to other judgements",
    "repeated_query": "a query id that stands twice",
    "unjudged": "no document is judged relevant, so that quality says nothing",
    "no_latency": "no latency for this query and arm",
}
"""Kind → description, in the order of a report."""

_SHOWN_ROWS = 12


@dataclass(frozen=True, slots=True)
class Problem:
    """One unusable cell or row."""

    kind: str
    """A key of ``KINDS``."""
    column: str
    """Header of the column; '' where the row as a whole is meant."""
    row: int | None
    """As a spreadsheet counts (the header is row 1); None: the table as a whole."""
    value: str = ""
    """What stands there, or what else the reader should know."""


@dataclass
class Problems:
    """All problems of one source."""

    source: str
    n_rows: int = 0
    row_word: str = "row"
    """What the numbers count: rows of a table, or queries of a set of runs."""
    found: list[Problem] = field(default_factory=list)

    def add(self, kind: str, column: str, row: int | None, value: object = "") -> None:
        """Record one problem."""
        self.found.append(Problem(kind, column, row, str(value)[:120]))

    @property
    def fatal(self) -> bool:
        """True where a problem concerns the table as a whole, so that dropping rows won't help."""
        return any(problem.row is None for problem in self.found)

    @property
    def rows(self) -> set[int]:
        """Numbers of the rows with a problem."""
        return {problem.row for problem in self.found if problem.row is not None}

    def describe(self) -> str:
        """Return a line per kind and column, with row numbers and the first values."""
        groups: dict[tuple[str, str], list[Problem]] = {}
        for problem in self.found:
            groups.setdefault((problem.kind, problem.column), []).append(problem)
        order = list(KINDS)
        lines = []
        for (kind, column), members in sorted(
            groups.items(), key=lambda group: (order.index(group[0][0]), group[0][1])
        ):
            named = f"{column}: " if column else ""
            lines.append(f"  {named}{KINDS[kind]}{_where(members, self.row_word)}")
        return "\n".join(lines)


def refuse(sets: Sequence[Problems], target: Path) -> NoReturn:
    """Raise ``LabelsError`` with everything that was found in the sources of one import."""
    found = [one for one in sets if one.found]
    lines = [f"nothing was imported to {target}:"]
    for one in found:
        problems = f"{len(one.found):,} {_words('problem', len(one.found))}"
        rows = f" in {one.n_rows:,} {_words(one.row_word, one.n_rows)}" if one.n_rows else ""
        lines.append(f"{one.source}: {problems}{rows}:")
        lines.append(one.describe())
    lines.append(_advice(found))
    raise LabelsError("\n".join(lines))


def _advice(found: Sequence[Problems]) -> str:
    """Say what helps: options of every import command, where they do."""
    if not any(one.fatal for one in found):
        return (
            "Mend the source, or import with --lenient, which leaves what is named out and "
            "records it."
        )
    kinds = {problem.kind for one in found for problem in one.found if problem.row is None}
    if kinds & {"missing_column", "ambiguous_column", "unit"}:
        return (
            "Mend the source, or say how to read it: --column what=HEADER names a column, "
            "--latency-unit ms or s a unit."
        )
    return "Mend the source."


def _where(members: list[Problem], row_word: str) -> str:
    """``: row 3 (x), 5 …`` for rows, or the values where the whole table is meant."""
    placed = sorted((one for one in members if one.row is not None), key=lambda one: one.row or 0)
    if not placed:
        told = [one.value for one in members if one.value]
        return f": {'; '.join(told)}" if told else ""
    shown = ", ".join(
        f"{one.row} ({one.value})" if one.value else str(one.row) for one in placed[:_SHOWN_ROWS]
    )
    more = len(placed) - _SHOWN_ROWS
    rest = f" and {more:,} more" if more > 0 else ""
    return f": {_words(row_word, len(placed))} {shown}{rest}"


def _words(word: str, count: int) -> str:
    plural = "queries" if word == "query" else f"{word}s"
    return word if count == 1 else plural


def write_problems(sets: Iterable[Problems], path: Path) -> None:
    """Write every problem as CSV: source, row, column, kind, value."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("source", "row", "column", "kind", "value"))
        for one in sets:
            for problem in one.found:
                row = "" if problem.row is None else problem.row
                writer.writerow((one.source, row, problem.column, problem.kind, problem.value))
