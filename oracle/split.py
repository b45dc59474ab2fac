"""Train, validation and test queries: split inside each dataset, grouped by the query's text."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from arms.corpora.corpus import Dataset
from oracle.settings import SplitSettings

QueryKey = tuple[str, str]
"""(dataset, query id)."""


def normalised_text(text: str) -> str:
    """Return ``text`` with case folded and every run of white space as one space."""
    return " ".join(text.casefold().split())


def text_group(text: str) -> str:
    """Return 16 hexadecimal digits that are equal for queries of equal normalised text."""
    encoded = normalised_text(text).encode("utf-8", "surrogatepass")
    return hashlib.sha256(encoded).hexdigest()[:16]


def split_queries(
    datasets: Sequence[Dataset], shares: SplitSettings, seed: int
) -> dict[QueryKey, str]:
    """Return ``train``, ``val`` or ``test`` for every query of the suite.

    See :func:`split_grouped`; the group is the normalised text.
    """
    groups = {
        dataset.name: {query.query_id: text_group(query.text) for query in dataset.queries}
        for dataset in datasets
    }
    return split_grouped(groups, shares, seed)


def split_grouped(
    group_of: Mapping[str, Mapping[str, str]], shares: SplitSettings, seed: int
) -> dict[QueryKey, str]:
    """Split dataset → query id → group; the members of a group are never torn apart.

    A question never sits on both sides, even where it occurs in two datasets: the dataset first in
    the order of names decides for both. Inside a dataset the groups are ordered by a seeded hash
    of their text and fill test, then validation, to the nearest whole number of queries; train
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
