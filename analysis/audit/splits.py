"""What test queries share with training queries: texts, nearly equal texts, relevant documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.audit.findings import Findings, Objection
from analysis.evaluation import BoolArray
from analysis.table import Column, Table
from oracle.groups import Groupings, group_queries
from oracle.labels import Labels, TextArray
from oracle.split import text_group

_COLUMNS = (
    Column("dataset", "dataset"),
    Column("queries", "test queries", "count"),
    Column("exact", "equal text in training", "count"),
    Column("near_duplicate", "near-duplicate in training", "count"),
    Column("document", "relevant document in training", "count"),
)


@dataclass(frozen=True, eq=False)
class Leaks:
    """(Q,) each; of the held-out queries, which share something with a query of another side."""

    exact: BoolArray
    near_duplicate: BoolArray
    document: BoolArray
    texts_known: bool
    documents_known: bool


def leaks(labels: Labels, sides: TextArray, held_out: BoolArray) -> Leaks:
    """Find the groups anew from texts and judgements: what the labels record isn't believed.

    Without texts there is nothing else than what they record.

    Args:
        labels: with texts and relevant documents, as far as they are known.
        sides: (Q,) the side of each query.
        held_out: (Q,) the queries that something is claimed of.
    """
    texts = None if labels.texts is None else labels.texts.tolist()
    exact = (
        labels.text_groups
        if texts is None
        else np.array([text_group(text) for text in texts], dtype=object)
    )
    ids = None if labels.relevant_ids is None else labels.relevant_ids.tolist()
    own = [f"{row}" for row in range(len(exact))]
    groups: Groupings = group_queries(labels.datasets.tolist(), own, texts, ids)
    near = groups.near_duplicate if texts is not None else labels.near_duplicate_groups
    known = ids is not None and any(one is not None for one in ids)
    shared = _shares_a_document(labels.datasets, ids or [()] * len(own), sides)
    return Leaks(
        _torn(exact, sides) & held_out,
        np.zeros(len(own), dtype=bool)
        if near is None
        else _torn(_named(labels.datasets, near), sides) & held_out,
        shared & held_out,
        texts is not None,
        known,
    )


def _named(datasets: TextArray, groups: TextArray) -> TextArray:
    return np.array(
        [f"{dataset}/{group}" for dataset, group in zip(datasets, groups, strict=True)],
        dtype=object,
    )


def _torn(groups: TextArray, sides: TextArray) -> BoolArray:
    """(Q,) True where a query of the same group is on another side."""
    sides_of: dict[object, set[object]] = {}
    for group, side in zip(groups, sides, strict=True):
        sides_of.setdefault(group, set()).add(side)
    return np.array([len(sides_of[group]) > 1 for group in groups], dtype=bool)


def _shares_a_document(
    datasets: TextArray, ids: Sequence[Sequence[str] | None], sides: TextArray
) -> BoolArray:
    """(Q,) True where a relevant document is relevant to a query on another side, too."""
    sides_of: dict[tuple[object, str], set[object]] = {}
    for dataset, relevant, side in zip(datasets, ids, sides, strict=True):
        for one in relevant or ():
            sides_of.setdefault((dataset, one), set()).add(side)
    return np.array(
        [
            any(len(sides_of[dataset, one]) > 1 for one in relevant or ())
            for dataset, relevant in zip(datasets, ids, strict=True)
        ],
        dtype=np.bool_,
    )


def check_splits(labels: Labels, sides: TextArray, held_out: BoolArray, name: str) -> Findings:
    """Object to equal and nearly equal questions on both sides; remark on shared documents.

    Args:
        labels: see :func:`leaks`.
        sides: see there.
        held_out: see there.
        name: of the evaluation, as a reader knows it: ``test split``, ``folds``.
    """
    found = leaks(labels, sides, held_out)
    n = int(held_out.sum())
    rows = tuple(
        (
            str(dataset),
            int((held_out & here).sum()),
            int((found.exact & here).sum()),
            int((found.near_duplicate & here).sum()),
            int((found.document & here).sum()) if found.documents_known else None,
        )
        for dataset in sorted(set(labels.datasets.tolist()))
        for here in [labels.datasets == dataset]
    )
    objections = []
    if found.exact.any():
        objections.append(
            f"{name}: {int(found.exact.sum()):,} of {n:,} held-out queries have a query of equal "
            "text in training."
        )
    near = found.near_duplicate & ~found.exact
    if near.any():
        objections.append(
            f"{name}: {int(near.sum()):,} of {n:,} held-out queries have a nearly equal query, "
            "with a relevant document in common, in training; split by near_duplicate."
        )
    remarks = []
    if not found.texts_known:
        remarks.append(
            f"{name}: the labels hold no texts; equal and nearly equal queries are those that "
            "they record."
        )
    if found.documents_known:
        remarks.append(
            f"{name}: {int(found.document.sum()):,} of {n:,} held-out queries share a relevant "
            "document with a training query."
        )
    else:
        remarks.append(f"{name}: the labels don't name relevant documents.")
    title = f"What held-out queries share with training ({name})"
    table = Table(f"audit_splits_{name.split()[0]}", title, _COLUMNS, rows, rows)
    return Findings(tuple(Objection("splits", one) for one in objections), tuple(remarks), (table,))
