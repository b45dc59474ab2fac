"""Groups and relevant documents of released queries: in keeping with one another and the split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oracle.groups import STRENGTHS, Groupings, groups_in_force
from oracle.release.columns import keys, numbers, row_describer, texts
from oracle.release.faults import Fault, row_fault
from oracle.tables import GRADE, GROUP_COLUMNS, RELEVANT_GRADES, RELEVANT_IDS, RUNS

QUERIES = "queries.parquet"
BoolArray = NDArray[np.bool_]


def group_faults(queries: pa.Table, split: Any) -> list[Fault]:
    """Return every group that is finer than a looser one, or that the split tears apart.

    Args:
        queries: with datasets, ids, splits and text groups that are not null.
        split: what the manifest says of the split; anything.
    """
    describe = row_describer(queries, ("dataset", "query_id"))
    faults: list[Fault] = []
    datasets = texts(queries, "dataset").tolist()
    for looser, stricter in pairwise(GROUP_COLUMNS):
        inner, outer = texts(queries, looser).tolist(), texts(queries, stricter).tolist()
        faults += row_fault(
            QUERIES,
            _finer(datasets, inner, outer),
            f"{stricter} parts queries of one {looser}",
            describe,
        )
    by = split.get("by") if isinstance(split, dict) else None
    if by not in STRENGTHS or by == "query" or split.get("given"):
        return faults
    force = groups_in_force(Groupings(*(texts(queries, one) for one in _GROUPINGS)), by)
    return faults + row_fault(
        QUERIES,
        _torn(force.groups.tolist(), texts(queries, "split").tolist()),
        f"the split is by {by}, and a query of its group is in another split too",
        describe,
    )


_GROUPINGS = ("dataset", *GROUP_COLUMNS)


def _finer(datasets: Sequence[str], inner: Sequence[Any], outer: Sequence[Any]) -> BoolArray:
    """(Q,) where a query of the same dataset and inner group is in another outer group."""
    first: dict[tuple[str, Any], Any] = {}
    wrong = [
        own is not None
        and around is not None
        and first.setdefault((dataset, own), around) != around
        for dataset, own, around in zip(datasets, inner, outer, strict=True)
    ]
    return np.array(wrong, dtype=bool)


def _torn(groups: Sequence[str], splits: Sequence[str]) -> BoolArray:
    split_of: dict[str, str] = {}
    wrong = [split_of.setdefault(g, s) != s for g, s in zip(groups, splits, strict=True)]
    return np.array(wrong, dtype=bool)


def relevant_id_faults(queries: pa.Table, runs: pa.Table | None) -> list[Fault]:
    """Return every list of relevant documents that isn't one, or that rankings contradict.

    Args:
        queries: with ``relevant_grades`` and ``relevant_ids``.
        runs: rankings with grades; None: there are none.
    """
    grades = queries[RELEVANT_GRADES].to_pylist()
    ids = queries[RELEVANT_IDS].to_pylist()
    describe = row_describer(queries, ("dataset", "query_id", RELEVANT_IDS))
    pairs = list(zip(grades, ids, strict=True))
    unlike = [(g is None) != (i is None) or len(g or ()) != len(i or ()) for g, i in pairs]
    faults = row_fault(
        QUERIES,
        np.array(unlike, dtype=bool),
        f"{RELEVANT_IDS} doesn't name as many documents as {RELEVANT_GRADES}",
        describe,
    )
    sound = [
        not odd and _sorted(g or (), i or ()) for odd, (g, i) in zip(unlike, pairs, strict=True)
    ]
    disorderly = [not fits and not odd for odd, fits in zip(unlike, sound, strict=True)]
    faults += row_fault(
        QUERIES,
        np.array(disorderly, dtype=bool),
        f"{RELEVANT_IDS} isn't a list of different documents by grade, then id",
        describe,
    )
    if runs is None:
        return faults
    known = {
        key: dict(zip(i, g, strict=True))
        for key, (g, i), fits in zip(keys(queries).to_pylist(), pairs, sound, strict=True)
        if fits and g is not None
    }
    found = numbers(runs, GRADE)
    judged = np.flatnonzero(np.nan_to_num(found) > 0)
    wrong = np.zeros(len(runs), dtype=bool)
    part = runs.select(["dataset", "query_id", "doc_id"]).take(pa.array(judged))
    asked, documents = keys(part).to_pylist(), part["doc_id"].to_pylist()
    for row, key, document in zip(judged.tolist(), asked, documents, strict=True):
        wrong[row] = key in known and known[key].get(document) != found[row]
    return faults + row_fault(
        RUNS,
        wrong,
        f"{GRADE} isn't the one that {RELEVANT_IDS} and {RELEVANT_GRADES} tell of the document",
        row_describer(runs, ("dataset", "query_id", "arm", "doc_id", GRADE)),
    )


def _sorted(grades: Sequence[int | None], ids: Sequence[str | None]) -> bool:
    """Whether ids are there, differ, and go up where the grade is the same."""
    if any(one is None for one in (*grades, *ids)) or len(set(ids)) < len(ids):
        return False
    told = [(grade, str(one)) for grade, one in zip(grades, ids, strict=True)]
    return all(a[1] < b[1] for a, b in pairwise(told) if a[0] == b[0])
