"""Queries in groups (datasets, lengths, visual density, kinds of page), and means in each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from analysis.bootstrap import Estimate, FloatArray, Resamples, estimate_means
from analysis.evaluation import Evaluation, IntArray
from analysis.query_facts import QueryFacts

LENGTH_EDGES = (1, 6, 11, 16, 21, 31)
"""First word count of each bin of query length."""
DENSITY_BINS = 5

DATASET = "dataset"
LENGTH = "query length"
DENSITY = "visual density"
PAGE_KIND = "kind of page"


@dataclass(frozen=True, eq=False)
class Grouping:
    """The N queries of an evaluation, each in at most one of the named groups."""

    name: str
    groups: tuple[str, ...]
    """In the order to show."""
    codes: IntArray
    """(N,) index into ``groups``; −1: in none."""

    @property
    def counts(self) -> IntArray:
        """(G,) queries in each group."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.groups))


def groupings(evaluation: Evaluation, facts: QueryFacts) -> dict[str, Grouping]:
    """Return every grouping that the labels allow, by name; groups without a query are dropped."""
    rows = evaluation.label_rows
    found = [Grouping(DATASET, evaluation.dataset_names, evaluation.dataset_codes)]
    if facts.words is not None:
        found.append(length_grouping(facts.words[rows]))
    if facts.visual_density is not None:
        found.append(density_grouping(facts.visual_density[rows]))
    if facts.page_kinds is not None:
        found.append(_kind_grouping(facts.page_kinds[rows].astype(str).tolist()))
    return {one.name: one for one in map(_without_empty, found) if one.groups}


def length_grouping(words: FloatArray) -> Grouping:
    """Group (N,) word counts by ``LENGTH_EDGES``; the last bin is open."""
    names = [f"{low} to {high - 1} words" for low, high in pairwise(LENGTH_EDGES)]
    names.append(f"{LENGTH_EDGES[-1]} words or more")
    codes = np.digitize(np.nan_to_num(words, nan=0.0), LENGTH_EDGES) - 1
    return Grouping(LENGTH, tuple(names), codes.astype(np.intp))


def density_grouping(density: FloatArray) -> Grouping:
    """Group (N,) densities in [0, 1] into equal bins; 1 is in the last, NaN in none."""
    edges = np.linspace(0.0, 1.0, DENSITY_BINS + 1)
    names = tuple(f"{low:.1f}–{high:.1f}" for low, high in pairwise(edges))
    known = np.isfinite(density)
    codes = np.digitize(np.where(known, density, 0.0), edges[1:-1])
    return Grouping(DENSITY, names, np.where(known, codes, -1).astype(np.intp))


def _kind_grouping(kinds: Sequence[str]) -> Grouping:
    names = tuple(sorted({kind for kind in kinds if kind}))
    place = {name: code for code, name in enumerate(names)}
    codes = np.array([place.get(kind, -1) for kind in kinds], dtype=np.intp)
    return Grouping(PAGE_KIND, names, codes)


def _without_empty(grouping: Grouping) -> Grouping:
    kept = np.flatnonzero(grouping.counts)
    renumbered = np.full(len(grouping.groups) + 1, -1, dtype=np.intp)
    renumbered[kept] = np.arange(len(kept))
    names = tuple(grouping.groups[code] for code in kept)
    return Grouping(grouping.name, names, renumbered[grouping.codes])


def group_means(
    grouping: Grouping,
    columns: Sequence[FloatArray],
    resamples: Resamples,
    confidence: float,
) -> list[list[Estimate]]:
    """Mean of each of K columns (N,) in each of G groups, NaN left out: K lists of G estimates."""
    if not columns:
        return []
    values = np.stack(columns, axis=1)
    by_group = []
    for code in range(len(grouping.groups)):
        rows = np.flatnonzero(grouping.codes == code)
        by_group.append(estimate_means(values[rows], resamples, confidence, rows))
    return [list(of_column) for of_column in zip(*by_group, strict=True)]
