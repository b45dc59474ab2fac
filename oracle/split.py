"""Train, validation and test queries: split inside each dataset, in groups of queries."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from arms.corpora.corpus import Dataset
from arms.text_form import normalised_text
from oracle.settings import SplitSettings

QueryKey = tuple[str, str]
"""(dataset, query id)."""

SPLIT_GROUP = "split_group"
"""The key of a query's metadata that names its group."""


def text_group(text: str) -> str:
    """Return 16 hexadecimal digits that are equal for queries of equal normalised text."""
    encoded = normalised_text(text).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:16]


def is_text_group(group: str) -> bool:
    """Whether a group is of equal texts: those that datasets name hold a slash."""
    return "/" not in group


def query_groups(datasets: Sequence[Dataset]) -> dict[str, dict[str, str]]:
    """Return dataset → query id → group: what a split or a fold must not tear apart.

    The group is the normalised text, or, where the query's metadata has a ``split_group``, that
    group of its dataset: for queries that share a template or an author, say. Queries of equal
    text take the group of the first of them, by dataset name and then in the dataset's order.
    """
    of_text: dict[str, str] = {}
    groups: dict[str, dict[str, str]] = {}
    for dataset in sorted(datasets, key=lambda one: one.name):
        of_query = groups.setdefault(dataset.name, {})
        for query in dataset.queries:
            text, named = text_group(query.text), query.metadata.get(SPLIT_GROUP)
            own = text if named in (None, "") else f"{dataset.name}/{named}"
            of_query[query.query_id] = of_text.setdefault(text, own)
    return groups


def split_grouped(
    group_of: Mapping[str, Mapping[str, str]], shares: SplitSettings, seed: int
) -> dict[QueryKey, str]:
    """Split dataset → query id → group; the members of a group are never torn apart.

    A question never sits on both sides, even where it occurs in two datasets: the dataset first in
    the order of names decides for both. Inside a dataset the groups are ordered by a seeded hash
    of the group and fill test, then validation, to the nearest whole number of queries; train
    takes the rest. A dataset of two groups or more has a test query, one of three or more a
    validation query too, where the shares aren't zero. One alone goes to train.
    """
    split_of: dict[str, str] = {}
    splits: dict[QueryKey, str] = {}
    for dataset, groups in sorted(group_of.items()):
        sizes = dict(Counter(groups.values()))
        split_of.update(_split_groups(sizes, split_of, shares, seed))
        splits.update({(dataset, query_id): split_of[group] for query_id, group in groups.items()})
    return splits


def _split_groups(
    sizes: Mapping[str, int], decided: Mapping[str, str], shares: SplitSettings, seed: int
) -> dict[str, str]:
    """Assign the groups that no earlier dataset decided."""
    total = sum(sizes.values())
    taken: dict[str, str] = {group: decided[group] for group in sizes if group in decided}
    free = sorted((group for group in sizes if group not in decided), key=_seeded_order(seed))
    for name, share, fewest_groups in (("test", shares.test, 2), ("val", shares.val, 3)):
        target = round(share * total)
        if share > 0 and len(sizes) >= fewest_groups:
            target = max(target, 1)
        filled = sum(sizes[group] for group, split in taken.items() if split == name)
        chosen = _fill(free, sizes, target - filled, must_take=filled == 0 < target)
        taken.update(dict.fromkeys(chosen, name))
        free = [group for group in free if group not in chosen]
    taken.update(dict.fromkeys(free, "train"))
    return taken


def _fill(free: Sequence[str], sizes: Mapping[str, int], room: int, must_take: bool) -> set[str]:
    """Take groups in order while they fit; the smallest one where none does and one must."""
    chosen: set[str] = set()
    for group in free:
        if sizes[group] <= room:
            chosen.add(group)
            room -= sizes[group]
    if not chosen and must_take and len(free) > 1:
        chosen.add(min(free, key=lambda group: sizes[group]))
    return chosen


def _seeded_order(seed: int) -> Callable[[str], str]:
    """Return a sort key: the hash of seed and group, which ignores what other groups there are."""
    return lambda group: hashlib.sha256(f"{seed}:{group}".encode()).hexdigest()
