"""Groups of queries that a split must not tear apart, in three strengths.

``query``           queries of equal text, or of one group that their dataset names
``near_duplicate``  those joined where two queries have nearly equal texts and share a relevant
                    document; where no judgements are known, the texts alone decide
``document``        those joined where two queries share a relevant document

Groups are found inside each dataset. Queries of equal text stay together across datasets too, in
the groups that are put in force: :func:`groups_in_force`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from arms.corpora.corpus import Dataset
from oracle.near_duplicates import near_duplicate_pairs, text_vectors
from oracle.quality import relevant_ids_of
from oracle.settings import SplitBy, SplitSettings
from oracle.split import normalised_text, query_groups, split_grouped

STRENGTHS: tuple[SplitBy, ...] = get_args(SplitBy)
"""From the loosest to the strictest."""
LARGEST_SHARE = 0.5
"""A group with more than this share of a dataset's queries makes the dataset fall back."""

TextArray = NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Groupings:
    """The groups of Q queries in each strength; an entry is None where they can't be known."""

    datasets: TextArray
    """(Q,)."""
    query: TextArray
    """(Q,) from ``oracle.split.query_groups``; equal across datasets for equal texts."""
    near_duplicate: TextArray
    """(Q,) None where the texts are unknown. Names count inside a dataset."""
    document: TextArray
    """(Q,) None where the judgements are unknown. Names count inside a dataset."""

    @property
    def columns(self) -> tuple[TextArray, TextArray, TextArray]:
        """The groups of every strength, in the order of ``STRENGTHS``."""
        return self.query, self.near_duplicate, self.document

    def of(self, by: SplitBy) -> TextArray:
        """(Q,) the groups of one strength."""
        return self.columns[STRENGTHS.index(by)]


@dataclass(frozen=True)
class Fallback:
    """Why a dataset has looser groups than were asked for."""

    used: SplitBy
    because: str


@dataclass(frozen=True, eq=False)
class GroupsInForce:
    """What splits and folds keep together."""

    by: SplitBy
    """What was asked for."""
    groups: TextArray
    """(Q,) equal for queries that stay together, in whatever dataset."""
    fallbacks: Mapping[str, Fallback]
    """Dataset → what it got instead; datasets that got what was asked for are left out."""

    def used(self, dataset: str) -> SplitBy:
        """Return the strength of a dataset's groups."""
        return self.fallbacks[dataset].used if dataset in self.fallbacks else self.by


def split_rows(
    datasets: Sequence[str], force: GroupsInForce, shares: SplitSettings, seed: int
) -> TextArray:
    """(Q,) ``train``, ``val`` or ``test``; see ``oracle.split.split_grouped``."""
    group_of: dict[str, dict[str, str]] = {}
    for row, (dataset, group) in enumerate(zip(datasets, force.groups.tolist(), strict=True)):
        group_of.setdefault(dataset, {})[str(row)] = group
    splits = split_grouped(group_of, shares, seed)
    return _objects([splits[dataset, str(row)] for row, dataset in enumerate(datasets)])


def split_entry(force: GroupsInForce) -> dict[str, Any]:
    """Return what a manifest says of a split: what it was made by, and where it fell back."""
    return {
        "by": force.by,
        "fallbacks": {
            dataset: {"used": one.used, "because": one.because}
            for dataset, one in sorted(force.fallbacks.items())
        },
    }


def group_queries(
    datasets: Sequence[str],
    query_groups: Sequence[str],
    texts: Sequence[str] | None,
    relevant_ids: Sequence[Sequence[str] | None] | None,
) -> Groupings:
    """Find the groups of every strength, inside each dataset.

    A group is named after the least of the query groups that it joins.

    Args:
        datasets: (Q,).
        query_groups: (Q,) what is never torn apart, whatever the strength.
        texts: (Q,) None as a whole where they are unknown.
        relevant_ids: (Q,) documents judged above 0, in any order; None where unknown. A dataset
            of whose queries none is known counts as unjudged.
    """
    groups = _objects(query_groups)
    found = Groupings(_objects(datasets), groups, _unknown(groups), _unknown(groups))
    for dataset in sorted(set(datasets)):
        rows = np.flatnonzero(found.datasets == dataset)
        own = groups[rows].tolist()
        judged = None if relevant_ids is None else [relevant_ids[row] for row in rows.tolist()]
        if judged is not None and all(one is None for one in judged):
            judged = None
        near = np.zeros((0, 2), dtype=np.intp)
        if texts is not None:
            near = _near_duplicates([texts[row] for row in rows.tolist()], judged)
            found.near_duplicate[rows] = _joined(own, near)
        if judged is not None:
            found.document[rows] = _joined(own, np.concatenate([near, _sharing(judged)]))
    return found


def groups_in_force(groupings: Groupings, by: SplitBy) -> GroupsInForce:
    """Put the groups of one strength in force, looser ones where they don't serve.

    A dataset falls back from ``document`` to ``near_duplicate`` and from there to ``query``: where
    the groups are unknown, and where one of them holds more than half of its queries, so that
    nothing balanced could be held out.
    """
    datasets = groupings.datasets
    names = sorted(set(datasets.tolist()))
    levels: dict[str, SplitBy] = dict.fromkeys(names, by)
    fallbacks: dict[str, Fallback] = {}

    def fall_back(dataset: str, because: str) -> None:
        if dataset in fallbacks:
            because = f"{fallbacks[dataset].because}; {because}"
        levels[dataset] = STRENGTHS[STRENGTHS.index(levels[dataset]) - 1]
        fallbacks[dataset] = Fallback(levels[dataset], because)

    while True:
        for dataset in names:
            while _is_unknown(groupings, dataset, levels[dataset]):
                missing = "texts" if levels[dataset] == "near_duplicate" else "judgements"
                fall_back(dataset, f"its {missing} are unknown")
        groups = _in_force(groupings, levels)
        swallowed = {
            dataset: share
            for dataset in names
            if levels[dataset] != "query"
            and (share := _largest_share(groups[datasets == dataset])) > LARGEST_SHARE
        }
        if not swallowed:
            return GroupsInForce(by, groups, fallbacks)
        for dataset, share in swallowed.items():
            level = levels[dataset].replace("_", "-")
            fall_back(dataset, f"one {level} group holds {share:.0%} of its queries")


def suite_groupings(datasets: Sequence[Dataset]) -> Groupings:
    """Find the groups of a suite's queries; rows by dataset, then query id, as strings."""
    groups = query_groups(datasets)
    queries = [
        (dataset, query)
        for dataset in sorted(datasets, key=lambda one: one.name)
        for query in sorted(dataset.queries, key=lambda one: one.query_id)
    ]
    return group_queries(
        [dataset.name for dataset, _ in queries],
        [groups[dataset.name][query.query_id] for dataset, query in queries],
        [query.text for _, query in queries],
        [_judged(dataset.qrels.get(query.query_id)) for dataset, query in queries],
    )


def _judged(grades: Mapping[str, int] | None) -> list[str] | None:
    return None if grades is None else relevant_ids_of(grades)


def _is_unknown(groupings: Groupings, dataset: str, level: SplitBy) -> bool:
    return any(one is None for one in groupings.of(level)[groupings.datasets == dataset])


def _largest_share(groups: TextArray) -> float:
    return max(Counter(groups.tolist()).values()) / len(groups)


def _in_force(groupings: Groupings, levels: Mapping[str, SplitBy]) -> TextArray:
    """(Q,) groups of each dataset's own strength, joined where two have a query group in common."""
    own = np.empty(len(groupings.datasets), dtype=object)
    for dataset, level in levels.items():
        rows = groupings.datasets == dataset
        own[rows] = [f"{dataset}\x1f{group}" for group in groupings.of(level)[rows]]
    places = np.unique(own.astype(str), return_inverse=True)[1].ravel()
    return _joined(groupings.query.tolist(), _chains(places.tolist()))


def _near_duplicates(
    texts: Sequence[str], judged: Sequence[Sequence[str] | None] | None
) -> NDArray[np.intp]:
    """(pairs, 2) rows of nearly equal texts that share a relevant document, where that is known.

    Each text counts once: queries of equal text are together already.
    """
    normal = np.array([normalised_text(text) for text in texts], dtype=object)
    distinct, rows, place = np.unique(normal, return_index=True, return_inverse=True)
    pairs = near_duplicate_pairs(text_vectors(distinct.tolist()))
    if judged is not None and len(pairs):
        documents: list[set[str]] = [set() for _ in distinct]
        for one, found in zip(place.ravel().tolist(), judged, strict=True):
            documents[one].update(found or ())
        shared = [not documents[a].isdisjoint(documents[b]) for a, b in pairs.tolist()]
        pairs = pairs[np.array(shared, dtype=bool)]
    return np.asarray(rows[pairs], dtype=np.intp)


def _sharing(judged: Sequence[Sequence[str] | None]) -> NDArray[np.intp]:
    """(pairs, 2) rows that chain the queries of every relevant document."""
    documents = [(row, document) for row, found in enumerate(judged) for document in found or ()]
    chains = _chains([document for _, document in documents])
    rows = np.array([row for row, _ in documents], dtype=np.intp)
    return rows[chains]


def _chains(keys: Iterable[Any]) -> NDArray[np.intp]:
    """(pairs, 2) places that chain equal keys: each with the one before it."""
    last: dict[Any, int] = {}
    pairs = []
    for place, key in enumerate(keys):
        if key in last:
            pairs.append((last[key], place))
        last[key] = place
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def _joined(groups: Sequence[str], pairs: NDArray[np.intp]) -> TextArray:
    """(n,) connected components of groups and pairs of rows, named after their least group."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    names, node = np.unique(np.array(groups, dtype=str), return_inverse=True)
    first, second = node.ravel()[pairs.T]
    edges = coo_matrix((np.ones(len(first)), (first, second)), shape=(len(names), len(names)))
    component = connected_components(edges, directed=False)[1]
    _, least = np.unique(component, return_index=True)  # names are sorted: the first is the least
    return _objects(names[least[component[node.ravel()]]].tolist())


def _objects(values: Sequence[Any]) -> TextArray:
    return np.fromiter(values, dtype=object, count=len(values))


def _unknown(like: TextArray) -> TextArray:
    return np.full(len(like), None, dtype=object)
