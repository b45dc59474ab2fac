"""How much of one side of a split the other sides give away: measured, whatever made the split.

Sides are train, val and test, or the folds of cross-validation. All of it is counted from the
groups and relevant documents that labels record, so labels without texts can be checked too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracle.groups import Groupings
from oracle.labels import Labels
from oracle.near_duplicates import near_duplicate_pairs, text_vectors
from oracle.split import normalised_text

BoolArray = NDArray[np.bool_]
TextArray = NDArray[np.object_]


@dataclass(frozen=True)
class SplitLeaks:
    """Which queries have what on another side than their own; arrays are (Q,)."""

    exact: BoolArray
    """A query of the same text, or of the same group that the dataset names."""
    near_duplicate: BoolArray | None
    """A near-duplicate, directly or through others, of another text; None: unknown anywhere."""
    shared_document: BoolArray | None
    """A query with a relevant document in common; None: unknown anywhere."""

    def counts(self, held_out: BoolArray | None = None) -> LeakCounts:
        """Count over the queries ``held_out`` (Q,); None: over all."""
        kept = np.ones(len(self.exact), dtype=bool) if held_out is None else held_out
        near, shared = self.near_duplicate, self.shared_document
        return LeakCounts(
            n=int(kept.sum()),
            exact=int(self.exact[kept].sum()),
            near_duplicate=None if near is None else int(near[kept].sum()),
            shared_document=None if shared is None else int(shared[kept].sum()),
        )


@dataclass(frozen=True)
class LeakCounts:
    """How many of ``n`` queries have what on another side; None where that can't be known."""

    n: int
    exact: int
    near_duplicate: int | None
    shared_document: int | None


def leaks_of(labels: Labels, sides: Sequence[Hashable] | None = None) -> SplitLeaks:
    """Return :func:`split_leaks` of labels; ``sides`` (Q,): by default train, val and test."""
    relevant = labels.relevant_ids
    return split_leaks(
        labels.groupings,
        None if relevant is None else relevant.tolist(),
        labels.splits.tolist() if sides is None else sides,
    )


def split_leaks(
    groupings: Groupings,
    relevant_ids: Sequence[Sequence[str] | None] | None,
    sides: Sequence[Hashable],
    texts: Sequence[str] | None = None,
) -> SplitLeaks:
    """Find the queries that have something on another side than their own.

    Near-duplicates and documents are looked for inside each dataset, equal texts in all of them. A
    query of which something isn't known has none of it.

    Args:
        groupings: of Q queries.
        relevant_ids: (Q,) documents judged above 0; None where unknown.
        sides: (Q,).
        texts: (Q,) compared anew, which takes seconds for some thousands: near-duplicates are then
            those of a query itself, not those that it is joined with through others.
    """
    datasets = groupings.datasets.tolist()
    exact = _elsewhere([[group] for group in groupings.query.tolist()], sides)
    near = None
    if texts is not None:
        near = _near_elsewhere(datasets, texts, relevant_ids, sides)
    elif any(one is not None for one in groupings.near_duplicate):
        near = _of_other_text(groupings, sides)
    shared = None
    if relevant_ids is not None and any(one is not None for one in relevant_ids):
        keys = [
            [(dataset, document) for document in set(found or ())]
            for dataset, found in zip(datasets, relevant_ids, strict=True)
        ]
        shared = _elsewhere(keys, sides)
    return SplitLeaks(exact, near, shared)


def _elsewhere(keys: Sequence[Sequence[Any]], sides: Sequence[Hashable]) -> BoolArray:
    """(Q,) whether one of a query's keys occurs on another side."""
    seen: dict[Any, set[Hashable]] = {}
    for own, side in zip(keys, sides, strict=True):
        for key in own:
            seen.setdefault(key, set()).add(side)
    return np.array([any(len(seen[key]) > 1 for key in own) for own in keys], dtype=bool)


def _near_elsewhere(
    datasets: Sequence[str],
    texts: Sequence[str],
    relevant_ids: Sequence[Sequence[str] | None] | None,
    sides: Sequence[Hashable],
) -> BoolArray:
    """(Q,) whether a near-duplicate (see ``oracle.groups``) of another text is on another side."""
    found = np.zeros(len(texts), dtype=bool)
    for dataset in sorted(set(datasets)):
        rows = [row for row, one in enumerate(datasets) if one == dataset]
        judged = None if relevant_ids is None else [relevant_ids[row] for row in rows]
        if judged is not None and all(one is None for one in judged):
            judged = None
        of_text: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            of_text.setdefault(normalised_text(texts[row]), []).append(place)
        members = list(of_text.values())
        for first, second in near_duplicate_pairs(text_vectors(list(of_text))).tolist():
            for a, b in product(members[first], members[second]):
                together = judged is None or not set(judged[a] or ()).isdisjoint(judged[b] or ())
                if together and sides[rows[a]] != sides[rows[b]]:
                    found[[rows[a], rows[b]]] = True
    return found


def _of_other_text(groupings: Groupings, sides: Sequence[Hashable]) -> BoolArray:
    """(Q,) whether a query of the same near-duplicate group and another text is on another side."""
    rows = list(
        zip(
            groupings.datasets.tolist(),
            groupings.near_duplicate.tolist(),
            sides,
            groupings.query.tolist(),
            strict=True,
        )
    )
    members = {one for one in rows if one[1] is not None}
    of_group = Counter((dataset, near) for dataset, near, _, _ in members)
    of_side = Counter((dataset, near, side) for dataset, near, side, _ in members)
    of_text = Counter((dataset, near, text) for dataset, near, _, text in members)

    def found(dataset: str, near: str | None, side: Hashable, text: str) -> bool:
        # Members on another side and of another text: all, less those of the side or of the text.
        others = of_group[dataset, near] - of_side[dataset, near, side]
        return near is not None and others - of_text[dataset, near, text] + 1 > 0

    return np.array([found(*one) for one in rows], dtype=bool)


def leak_sentence(counts: LeakCounts, of: str) -> str:
    """Say what was counted: ``of`` names the queries, ``test queries`` say."""
    parts = [f"{counts.exact:,} have a query of the same text on another side"]
    if counts.near_duplicate is None:
        parts.append("near-duplicates can't be told (no texts or judgements are known)")
    else:
        parts.append(f"{counts.near_duplicate:,} have a near-duplicate there")
    if counts.shared_document is None:
        parts.append("shared relevant documents can't be told (no judgements are known)")
    else:
        parts.append(
            f"{counts.shared_document:,} share a relevant document with a query on another side"
        )
    return f"Of {counts.n:,} {of}, {parts[0]}, {parts[1]}, and {parts[2]}."
