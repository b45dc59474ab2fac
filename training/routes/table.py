"""Routing labels: which routes each query needs, and nothing about how well an arm answered it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from arms.errors import LabelsError
from arms.reward import BoolArray, FloatArray
from oracle.settings import SplitSettings
from oracle.split import split_grouped, text_group
from training.table import FEWEST_QUERIES, RoutingTable

TextArray = NDArray[np.object_]
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class RouteTable:
    """Q queries and the set of routes that each of them needs."""

    routes: tuple[str, ...]
    """All R routes, in the order of their names; ties between them go to the earlier."""
    query_ids: TextArray
    texts: TextArray
    sources: TextArray
    """Where a query comes from; what accuracies are broken down by."""
    splits: TextArray
    """``train``, ``val`` or ``test``."""
    needed: BoolArray
    """(Q, R) at least one in each row."""

    def __len__(self) -> int:
        return len(self.query_ids)

    def rows(self, wanted: BoolArray | NDArray[np.intp]) -> RouteTable:
        """Return the wanted rows, in the order given."""
        return RouteTable(
            self.routes,
            self.query_ids[wanted],
            self.texts[wanted],
            self.sources[wanted],
            self.splits[wanted],
            self.needed[wanted],
        )

    def of_split(self, split: str) -> RouteTable:
        """Return the rows of one split."""
        return self.rows(self.splits == split)

    def with_routes(self, routes: Sequence[str]) -> RouteTable:
        """Return the table over ``routes``, the order of a router.

        Raises:
            LabelsError: a query needs a route that is not among them.
        """
        unknown = [route for route in self.routes if route not in routes]
        if unknown:
            raise LabelsError(
                f"the labels have routes that the router does not know: {', '.join(unknown)}; it "
                f"knows {', '.join(routes)}; train it on labels with all of them"
            )
        needed = np.zeros((len(self), len(routes)), dtype=bool)
        for column, route in enumerate(self.routes):
            needed[:, list(routes).index(route)] = self.needed[:, column]
        return replace(self, routes=tuple(routes), needed=needed)

    def targets(self, smoothing: float) -> FloatArray:
        """(Q, R) rows that sum to 1: even over the routes needed, ``smoothing`` over all."""
        needed = self.needed.astype(np.float64)
        even: FloatArray = needed / needed.sum(axis=1, keepdims=True)
        return (1.0 - smoothing) * even + smoothing / len(self.routes)

    def as_labels(self) -> RoutingTable:
        """Return the same as oracle labels: quality 1 on a route that is needed, no latencies.

        At λ = 0 the reward is the quality, so whatever learns from rewards learns these labels.
        """
        groups = np.array([text_group(text) for text in self.texts], dtype=object)
        return RoutingTable(
            arms=self.routes,
            datasets=self.sources,
            query_ids=self.query_ids,
            splits=self.splits,
            text_groups=groups,
            split_groups=groups,
            texts=self.texts,
            quality=self.needed.astype(np.float64),
            latency_ms=np.ones(self.needed.shape),
            competes=np.ones(self.needed.shape, dtype=bool),
            comparable=np.ones(len(self), dtype=bool),
        )


@dataclass(frozen=True)
class Prepared:
    """Labels whose every query has its place, and what was done to get there."""

    table: RouteTable
    cut_from_train: tuple[str, ...]
    """The splits that the labels lacked and that were cut from train."""
    left_out: int
    """Training queries left out, since their text stands in another split too."""
    contradicting: int
    """Queries whose text stands with other routes too."""
    never_trained: tuple[str, ...]
    """Routes that no training query needs."""


def prepare(table: RouteTable, seed: int, share: float = 0.1) -> Prepared:
    """Give the labels the splits they lack, and keep equal texts on one side.

    Splits that are there stay. A missing ``val`` or ``test`` is cut from train by groups of equal
    text (case and white space folded), ``share`` of each source's queries. Training queries whose
    text stands in ``val`` or ``test`` leave training.

    Raises:
        LabelsError: no training query is left, or fewer than two routes are trained on.
    """
    lacking = tuple(split for split in SPLITS[1:] if not (table.splits == split).any())
    train = np.flatnonzero(table.splits == "train")
    groups = np.array([text_group(text) for text in table.texts], dtype=object)
    held = set(groups[table.splits != "train"].tolist())
    leaking = np.zeros(len(table), dtype=bool)
    leaking[train] = [group in held for group in groups[train]]
    usable = np.flatnonzero((table.splits == "train") & ~leaking)
    splits = table.splits.copy()
    splits[usable] = _cut(table, groups, usable, lacking, seed, share)
    cut = replace(table, splits=splits).rows(~leaking)
    never_trained = _untrained(cut, lacking)
    return Prepared(cut, lacking, int(leaking.sum()), _contradicting(table, groups), never_trained)


def _contradicting(table: RouteTable, groups: TextArray) -> int:
    needs = [row.tobytes() for row in table.needed]
    of_text: dict[str, set[bytes]] = {}
    for text, need in zip(groups.tolist(), needs, strict=True):
        of_text.setdefault(text, set()).add(need)
    return sum(len(of_text[text]) > 1 for text in groups.tolist())


def _cut(
    table: RouteTable,
    groups: TextArray,
    rows: NDArray[np.intp],
    lacking: Sequence[str],
    seed: int,
    share: float,
) -> list[str]:
    shares = {split: share if split in lacking else 0.0 for split in SPLITS[1:]}
    if shares["test"] == 0.0:  # the test share must be above 0: cut it, and call it what is lacking
        if shares["val"] == 0.0:
            return ["train"] * len(rows)
        settings, names = SplitSettings(train=1 - share, val=0.0, test=share), {"test": "val"}
    else:
        settings = SplitSettings(
            train=1 - sum(shares.values()), val=shares["val"], test=shares["test"]
        )
        names = {}
    of_source: dict[str, dict[str, str]] = {}
    for row in rows.tolist():
        of_source.setdefault(table.sources[row], {})[str(row)] = groups[row]
    found = split_grouped(of_source, settings, seed)
    chosen = [found[table.sources[row], str(row)] for row in rows.tolist()]
    return [names.get(split, split) for split in chosen]


def _untrained(table: RouteTable, lacking: Sequence[str]) -> tuple[str, ...]:
    """Routes that no training query needs; ``LabelsError`` where there is too little to learn."""
    train = table.splits == "train"
    trained = table.needed[train].any(axis=0)
    if trained.sum() < 2:
        known = [route for route, there in zip(table.routes, trained, strict=True) if there]
        cut = f", after the splits {' and '.join(lacking)} were cut" if lacking else ""
        raise LabelsError(
            "a router needs training queries of at least two routes, got "
            f"{', '.join(known) or 'none'} (training queries: {int(train.sum())}{cut}); label more "
            "queries"
        )
    texts = len(set(table.texts[train].tolist()))
    if texts < FEWEST_QUERIES or not (table.splits == "test").any():
        raise LabelsError(
            f"a router of routes needs at least {FEWEST_QUERIES} training queries of different "
            f"texts, and test queries; got {texts} different texts in {int(train.sum())} training "
            f"queries, and {int((table.splits == 'test').sum())} test queries; label more queries"
        )
    return tuple(route for route, there in zip(table.routes, trained, strict=True) if not there)
