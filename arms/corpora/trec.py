"""Judgements and runs in TREC's text formats, plain or gzipped.

Judgements: ``query iteration document grade``. Runs: ``query Q0 document rank score tag``. Columns
stand between white space; a line with tabs is split at tabs alone, so that ids may hold spaces.
Format: trec_eval's README (https://github.com/usnistgov/trec_eval).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from arms.atomic import atomic_file
from arms.corpora.lines import decode, numbered_lines, writing
from arms.corpora.problems import EXAMPLES_PER_KIND, LineError
from arms.errors import CorpusError
from arms.records import Qrels, Ranking

_QRELS_COLUMNS = ("query", "iteration", "document", "grade")
_RUN_COLUMNS = ("query", "Q0", "document", "rank", "score", "tag")


def read_qrels(path: Path) -> Qrels:
    """Read judgements; grades below 0, which some tracks use for spam, are kept as they are.

    Raises:
        CorpusError: lists the first lines that are unusable (columns, grade, a pair judged twice
            with different grades) with their numbers, and how many more there are.
    """
    grades: dict[str, dict[str, int]] = {}
    faults: list[str] = []
    for number, columns in _rows(path, _QRELS_COLUMNS, faults):
        query_id, _, doc_id, written = columns
        grade = _integer(written)
        if grade is None:
            faults.append(f"{number}: the grade should be an integer, got '{written}'")
        elif grades.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            earlier = grades[query_id][doc_id]
            where = _first(path, _QRELS_COLUMNS, query_id, doc_id, faults)
            faults.append(
                f"{number}: '{query_id}' '{doc_id}' has grade {earlier}{where}, then {grade}"
            )
    _raise_faults(path, faults)
    return grades


def read_run(path: Path) -> dict[str, Ranking]:
    """Read a run: query id → ranking by score, then document id; ranks in the file are ignored.

    Raises:
        CorpusError: lists the first lines that are unusable (columns, a score that is no finite
            number, a document twice for one query) with their numbers, and how many more there are.
    """
    scores: dict[str, dict[str, float]] = {}
    faults: list[str] = []
    for number, columns in _rows(path, _RUN_COLUMNS, faults):
        query_id, _, doc_id, _, written, _ = columns
        score = _finite(written)
        found = scores.setdefault(query_id, {})
        if score is None:
            faults.append(f"{number}: the score should be a finite number, got '{written}'")
        elif doc_id in found:
            where = _first(path, _RUN_COLUMNS, query_id, doc_id, faults)
            faults.append(
                f"{number}: document '{doc_id}' stands twice for query '{query_id}', first{where}"
            )
        else:
            found[doc_id] = score
    _raise_faults(path, faults)
    return {query_id: _ranking(found) for query_id, found in scores.items()}


def write_qrels(qrels: Qrels, path: Path) -> None:
    """Write judgements with tabs between columns, atomically; gzipped if the name ends in .gz."""
    lines = (
        _row(query_id, "0", doc_id, str(grade))
        for query_id, grades in qrels.items()
        for doc_id, grade in grades.items()
    )
    _write_lines(lines, path)


def write_run(run: Mapping[str, Ranking], path: Path, tag: str = "learning-to-route") -> None:
    """Write a run with tabs between columns, ranks from 1, scores that read back exactly.

    Atomic; gzipped if the name ends in .gz. A query with an empty ranking has no line: the format
    can't say that an arm ran and found nothing.
    """
    lines = (
        _row(query_id, "Q0", doc_id, str(rank), repr(float(score)), tag)
        for query_id, ranking in run.items()
        for rank, (doc_id, score) in enumerate(
            zip(ranking.doc_ids, ranking.scores, strict=True), start=1
        )
    )
    _write_lines(lines, path)


def _rows(path: Path, names: tuple[str, ...], faults: list[str]) -> Iterator[tuple[int, list[str]]]:
    for number, line in numbered_lines(path):
        try:
            text = decode(line).rstrip("\r\n")
        except LineError as error:
            faults.append(f"{number}: not UTF-8 text: {error}")
            continue
        columns = text.split("\t") if "\t" in text else text.split()
        if len(columns) != len(names):
            expected = f"{len(names)} columns ({' '.join(names)})"
            faults.append(f"{number}: expected {expected}, got {len(columns)}")
            continue
        yield number, columns


def _first(
    path: Path, names: tuple[str, ...], query_id: str, doc_id: str, faults: list[str]
) -> str:
    """Say in which line a pair stands first: the file is read again, for faults that are shown."""
    if len(faults) >= EXAMPLES_PER_KIND:
        return ""
    rows = _rows(path, names, [])
    return next(f" in line {n}" for n, row in rows if (row[0], row[2]) == (query_id, doc_id))


def _raise_faults(path: Path, faults: list[str]) -> None:
    if faults:
        shown = "\n".join(f"  line {fault}" for fault in faults[:EXAMPLES_PER_KIND])
        more = len(faults) - EXAMPLES_PER_KIND
        rest = f"\n  and {more} more" if more > 0 else ""
        raise CorpusError(f"{path} has {len(faults)} unusable lines:\n{shown}{rest}")


def _integer(written: str) -> int | None:
    """Python itself reads ``1_0`` as 10."""
    try:
        return None if "_" in written else int(written)
    except ValueError:
        return None


def _finite(written: str) -> float | None:
    try:
        value = math.nan if "_" in written else float(written)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _ranking(scores: Mapping[str, float]) -> Ranking:
    ordered = sorted(scores.items(), key=lambda found: (-found[1], found[0]))
    return Ranking(tuple(doc_id for doc_id, _ in ordered), tuple(score for _, score in ordered))


def _row(*columns: str) -> str:
    for column in columns:
        if not column or any(mark in column for mark in "\t\r\n"):
            raise CorpusError(
                f"{column!r} can't stand in a TREC file: expected text without tab or line break"
            )
    return "\t".join(columns) + "\n"


def _write_lines(lines: Iterator[str], path: Path) -> None:
    with (
        atomic_file(path) as temporary,
        writing(temporary, compressed=path.suffix == ".gz") as stream,
    ):
        for line in lines:
            stream.write(line.encode("utf-8"))
