"""Rectangles on a page: the area that they cover together, and marks that form one drawing.

A box is ``(left, bottom, right, top)`` in any unit; the direction of the y axis doesn't matter as
long as ``bottom <= top`` in number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Box = tuple[float, float, float, float]

_EXACT_BOXES = 1000
"""With more, edges are moved to a lattice of this many steps a side, which bounds the memory."""

GAP = 0.0125
"""Marks nearer than twice this share of the page's longer side belong to one drawing."""
_CELLS = 400
"""Of the longer side, for finding which marks touch."""
MIN_SIDE = 0.03
"""Share of the page's side below which a drawing is a bullet, a rule or an icon."""
MIN_MARKS = 4
MIN_SEGMENTS = 40
"""A drawing has this many marks, or this many line segments in fewer marks."""
RULE = 0.003
"""Share of the page's longer side up to which a mark is thin."""
MIN_RULES = 3
_RULE_WIDTH = 0.15
_RULE_DISTANCE = 0.25
"""Rules of one table: at least this wide, no further apart than this (shares of the page)."""


@dataclass(frozen=True, slots=True)
class Mark:
    """One drawn path: its bounds and the number of its line and curve segments."""

    box: Box
    n_segments: int


def clip(box: Box, page: Box) -> Box | None:
    """Return the part of the box that lies on the page; None where there is none."""
    left, bottom = max(box[0], page[0]), max(box[1], page[1])
    right, top = min(box[2], page[2]), min(box[3], page[3])
    return (left, bottom, right, top) if left < right and bottom < top else None


def area(box: Box) -> float:
    """Return the box's area."""
    return (box[2] - box[0]) * (box[3] - box[1])


def covered_share(boxes: Iterable[Box], page: Box) -> float:
    """Return the share of the page's area under the union of the boxes, in [0, 1].

    Overlaps count once and what lies beyond the page doesn't count. A page without area: 0.
    """
    clipped = {part for box in boxes if (part := clip(box, page)) is not None}
    if not clipped or area(page) <= 0:
        return 0.0
    sides = np.array(sorted(clipped), dtype=np.float64)
    if len(sides) > _EXACT_BOXES:
        low = np.array([page[0], page[1]] * 2)
        step = np.array([page[2] - page[0], page[3] - page[1]] * 2) / _EXACT_BOXES
        sides = low + np.round((sides - low) / step) * step
    return float(min(1.0, _union_area(sides) / area(page)))


def _union_area(sides: NDArray[np.float64]) -> float:
    """Area under (n, 4) boxes: count, in each cell between neighbouring edges, what covers it."""
    xs, ys = np.unique(sides[:, (0, 2)]), np.unique(sides[:, (1, 3)])
    left, right = np.searchsorted(xs, sides[:, 0]), np.searchsorted(xs, sides[:, 2])
    bottom, top = np.searchsorted(ys, sides[:, 1]), np.searchsorted(ys, sides[:, 3])
    change = np.zeros((len(xs), len(ys)), dtype=np.int32)
    for x, y, sign in ((left, bottom, 1), (right, bottom, -1), (left, top, -1), (right, top, 1)):
        np.add.at(change, (x, y), sign)
    covered = change.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] > 0
    return float(np.diff(xs) @ covered @ np.diff(ys))


def drawings(marks: Sequence[Mark], page: Box) -> list[Box]:
    """Return the bounds of the charts, tables and other drawings that the marks form.

    Marks that touch or nearly touch form one drawing. Lines alone, such as underlined text, a
    frame, a coloured band or a bullet don't count; three or more rules of equal width, as in a
    table without verticals, do.
    """
    if not marks:
        return []
    sides = np.array([mark.box for mark in marks], dtype=np.float64)
    found = _tables_of_rules(sides, page)
    for members in _touching(sides, page):
        if _is_drawing(sides[members], [marks[one].n_segments for one in members], page):
            found.append(_bounds(sides[members]))
    return found


def _is_drawing(sides: NDArray[np.float64], n_segments: Sequence[int], page: Box) -> bool:
    left, bottom, right, top = _bounds(sides)
    width, height = page[2] - page[0], page[3] - page[1]
    if right - left < MIN_SIDE * width or top - bottom < MIN_SIDE * height:
        return False
    if not (len(sides) >= MIN_MARKS or sum(n_segments) >= MIN_SEGMENTS):
        return False
    thin = RULE * max(width, height)
    return not np.all(sides[:, 3] - sides[:, 1] <= thin)


def _bounds(sides: NDArray[np.float64]) -> Box:
    low, high = sides[:, :2].min(axis=0), sides[:, 2:].max(axis=0)
    return float(low[0]), float(low[1]), float(high[0]), float(high[1])


def _tables_of_rules(sides: NDArray[np.float64], page: Box) -> list[Box]:
    width, height = page[2] - page[0], page[3] - page[1]
    thin = RULE * max(width, height)
    is_rule = (sides[:, 3] - sides[:, 1] <= thin) & (
        sides[:, 2] - sides[:, 0] >= _RULE_WIDTH * width
    )
    groups: dict[tuple[int, int], list[Box]] = {}
    for left, bottom, right, top in sides[is_rule].tolist():
        key = (round(left / thin), round(right / thin))
        groups.setdefault(key, []).append((left, bottom, right, top))
    found: list[Box] = []
    for rules in groups.values():
        rules.sort(key=lambda rule: rule[1])
        run = [rules[0]]
        for rule in [*rules[1:], None]:
            if rule is not None and rule[1] - run[-1][3] <= _RULE_DISTANCE * height:
                run.append(rule)
                continue
            if len(run) >= MIN_RULES and run[-1][3] - run[0][1] >= MIN_SIDE * height:
                found.append(_bounds(np.array(run)))
            run = [] if rule is None else [rule]
    return found


def _touching(sides: NDArray[np.float64], page: Box) -> list[list[int]]:
    """Return the marks' numbers in groups that touch once each is widened by ``GAP``."""
    longer = max(page[2] - page[0], page[3] - page[1])
    gap, cell = GAP * longer, longer / _CELLS
    origin = np.array([page[0], page[1]])
    low = np.clip(np.floor((sides[:, :2] - gap - origin) / cell), 0, _CELLS - 1).astype(np.intp)
    high = np.clip(np.floor((sides[:, 2:] + gap - origin) / cell), 0, _CELLS - 1).astype(np.intp)
    change = np.zeros((_CELLS + 1, _CELLS + 1), dtype=np.int32)
    for x, y, sign in (
        (low[:, 0], low[:, 1], 1),
        (high[:, 0] + 1, low[:, 1], -1),
        (low[:, 0], high[:, 1] + 1, -1),
        (high[:, 0] + 1, high[:, 1] + 1, 1),
    ):
        np.add.at(change, (x, y), sign)
    marked = change.cumsum(axis=0).cumsum(axis=1)[:-1, :-1] > 0
    groups: dict[int, list[int]] = {}
    for number, name in enumerate(connected(marked)[low[:, 0], low[:, 1]].tolist()):
        groups.setdefault(name, []).append(number)
    return list(groups.values())


def connected(marked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return a name for each marked cell, equal where a path of marked neighbours joins cells.

    Neighbours share a side or a corner. Unmarked cells get −1. Runs of a row are joined to those
    of the row before (Rosenfeld and Pfaltz, 1966).
    """
    names = np.full(marked.shape, -1, dtype=np.int64)
    parents: list[int] = []
    before: list[tuple[int, int, int]] = []
    for row in range(marked.shape[0]):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], marked[row].view(np.int8), [0]))))
        runs: list[tuple[int, int, int]] = []
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            name = len(parents)
            parents.append(name)
            for other_begin, other_end, other in before:
                if other_begin <= end and begin <= other_end:
                    parents[_root(parents, other)] = _root(parents, name)
            runs.append((begin, end, name))
            names[row, begin:end] = name
        before = runs
    roots = np.array([_root(parents, name) for name in range(len(parents))], dtype=np.int64)
    return np.where(names >= 0, roots[names] if len(roots) else names, -1)


def _root(parents: list[int], name: int) -> int:
    while parents[name] != name:
        parents[name] = parents[parents[name]]
        name = parents[name]
    return name
