"""What made a split, and what it lets through, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oracle.labels import SPLIT, Labels
from oracle.split_leaks import LeakCounts, leak_sentence

_KEPT_TOGETHER = {
    "query": "queries of equal text",
    "near_duplicate": "queries of equal text, and of nearly equal texts with a relevant document "
    "in common,",
    "document": "queries of equal text, and those with a relevant document in common,",
}
SPLIT_NAMES = {"query": "query", "near_duplicate": "near-duplicate", "document": "document"}


def split_sentences(labels: Labels, leaks: LeakCounts) -> tuple[str, ...]:
    """Say what train, val and test were split by, where that fell back, and what leaks into test.

    ``leaks``: of the test queries.
    """
    entry: Mapping[str, Any] = labels.manifest.get(SPLIT, {})
    by = labels.split_by
    said = f"Split by {SPLIT_NAMES[by]}: {_KEPT_TOGETHER[by]} are never on two sides of train, "
    said += "validation and test."
    if entry.get("given"):
        said = "Train, validation and test were given with the labels."
    loosened = [
        f"{dataset} by {SPLIT_NAMES[one['used']]} ({one['because']})"
        for dataset, one in sorted(entry.get("fallbacks", {}).items())
    ]
    if loosened:
        said += f" Looser where that doesn't serve: {', '.join(loosened)}."
    return (f"{said} {leak_sentence(leaks, 'test queries')}",)
