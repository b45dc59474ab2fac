"""Relevant grades of released queries: well formed, and in keeping with rankings and quality."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from arms.errors import SettingsError
from oracle.quality import measure_names, quality_of_grades
from oracle.release.columns import keys, numbers, row_describer, texts
from oracle.release.faults import Fault, row_fault
from oracle.release.grades import HIGHEST, LOWEST
from oracle.tables import GRADE, RELEVANT_GRADES

_RANKING = ("dataset", "query_id", "arm")
_NEAR = 1e-6
"""By how much quality may differ from the computed one: single precision is enough."""
_PLAIN = re.compile(r"(?:nDCG|(?:RR|R|P|AP|Success)(?:\(rel=[1-9]\d{0,2}\))?)(?:@([1-9]\d{0,5}))?")
"""Measures that may be computed for strangers; with others trec_eval may end the process."""

Relevant = Mapping[str, tuple[int, ...]]
"""Query (by ``oracle.release.columns.keys``) → its relevant grades, descending."""


def relevant_grade_faults(queries: pa.Table) -> list[Fault]:
    """Return every list of relevant grades that isn't one: of a possible size, and descending."""
    lists = queries[RELEVANT_GRADES].to_pylist()
    describe = row_describer(queries, ("dataset", "query_id", RELEVANT_GRADES))
    possible = np.array([one is None or _possible(one) for one in lists], dtype=bool)
    ordered = np.array(
        [not fits or not one or _descends(one) for one, fits in zip(lists, possible, strict=True)],
        dtype=bool,
    )
    told = f"relevant_grades holds something else than grades from 1 to {HIGHEST}"
    faults = row_fault("queries.parquet", ~possible, told, describe)
    return faults + row_fault(
        "queries.parquet", ~ordered, "relevant_grades isn't in descending order", describe
    )


def sound_relevant_grades(queries: pa.Table) -> Relevant:
    """Return the relevant grades of the queries that have them without a fault."""
    lists = zip(keys(queries).to_pylist(), queries[RELEVANT_GRADES].to_pylist(), strict=True)
    return {
        key: tuple(one)
        for key, one in lists
        if one is not None and _possible(one) and _descends(one)
    }


def _possible(grades: Sequence[int | None]) -> bool:
    return all(one is not None and 1 <= one <= HIGHEST for one in grades)


def _descends(grades: Sequence[int]) -> bool:
    return all(before >= after for before, after in pairwise(grades))


@dataclass(frozen=True, slots=True)
class _Ranking:
    label: int
    """Row of the labels."""
    first: int
    """Row of the rankings that comes first."""
    grades: tuple[int, ...]
    """Of the documents from rank 1 on, up to the first that is missing or has no grade."""
    whole: bool
    """Whether that is all of it."""
    relevant: tuple[int, ...]
    strange: tuple[int, ...]
    """Grades above 0, of any rank, that the relevant ones lack."""


def quality_faults(
    runs: pa.Table,
    labels: pa.Table,
    measures: Sequence[str],
    relevant: Relevant,
    whole_runs: bool,
) -> list[Fault]:
    """Return every ranking with foreign grades, and every quality that grades don't give.

    A quality is computed where the ranking is held, with a grade for each document, as deep as the
    measure looks: to its cut-off, or as a whole, which a ranking that was cut later
    (``whole_runs`` is false) isn't.

    Raises:
        MissingExtraError: ir-measures isn't installed.
    """
    rankings = _rankings(runs, labels, relevant)
    strange = {one.first: one for one in rankings if one.strange}
    name = row_describer(runs, _RANKING)

    def describe(row: int) -> str:
        found = ", ".join(map(str, strange[row].strange))
        return f"{name(row)}: {found} beyond {list(strange[row].relevant)}"

    wrong = np.zeros(len(runs), dtype=bool)
    wrong[list(strange)] = True
    told = "the ranking has grades above 0 that relevant_grades of its query lacks"
    faults = row_fault("runs.parquet", wrong, told, describe)
    ran = texts(labels, "status") == "ok"
    judged = [one for one in rankings if one.grades and not one.strange and ran[one.label]]
    for measure in measures:
        found = _PLAIN.fullmatch(measure)
        if not found:
            continue
        cutoff = int(found[1]) if found[1] else None
        faults += _quality_faults(
            labels,
            measure,
            [
                one
                for one in judged
                if (one.whole and whole_runs) or (cutoff and len(one.grades) >= cutoff)
            ],
        )
    return faults


def _quality_faults(labels: pa.Table, measure: str, rankings: Sequence[_Ranking]) -> list[Fault]:
    try:
        measure_names([measure], 10**6)
    except SettingsError:  # such as P without a cut-off
        return []
    rows = [one.label for one in rankings]
    computed = np.full(len(labels), np.nan)
    computed[rows] = quality_of_grades(
        [one.grades for one in rankings], [one.relevant for one in rankings], [measure]
    )[measure]
    stated = numbers(labels, measure)
    name = row_describer(labels, _RANKING)
    return row_fault(
        "labels.parquet",
        np.abs(stated - computed) > _NEAR,  # never true of NaN
        f"{measure} isn't what the grades of the ranking and relevant_grades give",
        lambda row: f"{name(row)}: {stated[row]:.6g}, by the grades {computed[row]:.6g}",
    )


def _rankings(runs: pa.Table, labels: pa.Table, relevant: Relevant) -> list[_Ranking]:
    """Return the rankings of labelled queries whose relevant grades are known."""
    places = pc.index_in(keys(runs, _RANKING), value_set=keys(labels, _RANKING).combine_chunks())
    place = pc.fill_null(places, -1).to_numpy().astype(np.intp)
    ranks, grades = numbers(runs, "rank"), numbers(runs, GRADE)
    absurd = (grades < LOWEST) | (grades > HIGHEST)  # named already
    grades = np.where(absurd, np.nan, grades)
    order = np.lexsort((ranks, place))
    starts = np.searchsorted(place[order], np.arange(len(labels) + 1))
    found = []
    for label, query in enumerate(keys(labels).to_pylist()):
        rows = order[starts[label] : starts[label + 1]]
        if query not in relevant or not len(rows):
            continue
        held = (ranks[rows] == np.arange(1, len(rows) + 1)) & ~np.isnan(grades[rows])
        depth = len(rows) if held.all() else int(held.argmin())
        above = Counter(int(one) for one in grades[rows] if one > 0)
        found.append(
            _Ranking(
                label=label,
                first=int(rows[0]),
                grades=tuple(grades[rows[:depth]].astype(int).tolist()),
                whole=depth == len(rows),
                relevant=relevant[query],
                strange=tuple((above - Counter(relevant[query])).elements()),
            )
        )
    return found
