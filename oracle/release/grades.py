"""Grades of released rankings: of a possible size, one per document, and in keeping with nDCG."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from oracle.release.columns import keys, numbers, repeated, row_codes, row_describer, texts
from oracle.release.faults import Fault, row_fault
from oracle.tables import GRADE, RUNS

LOWEST, HIGHEST = -100, 1000
_RANKING = ("dataset", "query_id", "arm")
_PLAIN_NDCG = re.compile(r"nDCG@([1-9]\d{0,8})")
"""Variants with parameters give other gains, or look at other documents."""


def grade_faults(
    runs: pa.Table,
    labels: pa.Table | None,
    measures: Sequence[str],
    computed: Collection[str] = (),
) -> list[Fault]:
    """Return every fault in the grades of ``runs``, whose keys are not null.

    Without ``labels`` grades aren't compared with nDCG, nor are those of the queries of
    ``computed`` (``oracle.release.columns.keys``): ``graded_quality`` checks all their measures.
    """
    grades = numbers(runs, GRADE)
    outside = (grades < LOWEST) | (grades > HIGHEST)  # never true of NaN, which is null here
    faults = row_fault(
        RUNS,
        outside,
        f"grade lies outside [{LOWEST}, {HIGHEST}]",
        row_describer(runs, (*_RANKING, "rank", GRADE)),
    )
    faults += _torn_grades(runs, grades)
    if labels is not None:
        faults += _unlike_ndcg(runs, grades, labels, measures, computed)
    return faults


def _torn_grades(runs: pa.Table, grades: NDArray[np.float64]) -> list[Fault]:
    """Documents with two grades for one query, be it in two rankings or in one."""
    known = np.flatnonzero(~np.isnan(grades))
    codes = row_codes(runs, ("dataset", "query_id", "doc_id"))[known]
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    earlier = np.arange(len(runs))
    earlier[known] = known[first][inverse]
    torn = ~np.isnan(grades) & (grades != grades[earlier])
    name = row_describer(runs, ("dataset", "query_id", "arm", "doc_id"))

    def describe(row: int) -> str:
        before = int(earlier[row])
        return f"{name(row)}: {grades[row]:.0f}, in row {before + 1} {grades[before]:.0f}"

    message = "grade differs from that of an earlier row of the same query and document"
    return row_fault(RUNS, torn, message, describe)


def _unlike_ndcg(
    runs: pa.Table,
    grades: NDArray[np.float64],
    labels: pa.Table,
    measures: Sequence[str],
    computed: Collection[str],
) -> list[Fault]:
    """Rankings whose nDCG@k is 0 and shouldn't be, or should be and isn't.

    nDCG@k is above 0 exactly where one of the first k grades is. Only rankings that hold their
    first k documents, all with a grade, can be judged.
    """
    cutoffs = {name: int(found[1]) for name in measures if (found := _PLAIN_NDCG.fullmatch(name))}
    if not cutoffs:
        return []
    places = pc.index_in(keys(runs, _RANKING), value_set=keys(labels, _RANKING).combine_chunks())
    ranks = numbers(runs, "rank")
    usable = pc.is_valid(places).to_numpy() & (ranks >= 1)
    usable &= ~repeated(runs, (*_RANKING, "rank"))
    place = pc.fill_null(places, 0).to_numpy().astype(np.intp)  # row of the labels
    ran = texts(labels, "status") == "ok"
    ran &= np.array([key not in computed for key in keys(labels).to_pylist()], dtype=bool)
    describe = row_describer(runs, _RANKING)

    def count(rows: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.bincount(place[rows], minlength=len(labels))

    faults: list[Fault] = []
    for measure, k in cutoffs.items():
        top = usable & (ranks <= k)
        judged = ran & (count(top & ~np.isnan(grades)) == k)
        relevant = count(top & (grades > 0)) > 0
        quality = numbers(labels, measure)
        for wrong, message in (
            (judged & (quality > 0) & ~relevant, "is above 0, and no grade of the first {} is"),
            (judged & (quality == 0) & relevant, "is 0, and a grade of the first {} is above 0"),
        ):
            if wrong.any():
                shown = top & (ranks == 1) & wrong[place]
                told = f"{measure} in labels.parquet {message.format(k)}"
                faults += row_fault(RUNS, shown, told, describe)
    return faults
