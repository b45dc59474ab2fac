"""Placing labels beside points so that none hides another, a marker or the edge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_NEAR_POINTS = 7.0
_STEPS = (1.0, 2.2, 3.6, 5.2)
_DIRECTIONS = (
    (1.0, 0.0, "left", "center"),
    (0.7, 0.7, "left", "bottom"),
    (0.7, -0.7, "left", "top"),
    (0.0, 1.0, "center", "bottom"),
    (0.0, -1.0, "center", "top"),
    (-0.7, 0.7, "right", "bottom"),
    (-0.7, -0.7, "right", "top"),
    (-1.0, 0.0, "right", "center"),
)


@dataclass(frozen=True, slots=True)
class PointLabel:
    """A text for the point (x, y), in the axes' own units."""

    x: float
    y: float
    text: str
    colour: str
    bold: bool = False


def place_labels(
    axes: Axes, labels: Sequence[PointLabel], obstacles: Sequence[tuple[float, float]]
) -> None:
    """Annotate ``axes``: each label takes the first free place around its point.

    ``obstacles`` are points (in the axes' units) whose markers must stay visible. Where no place
    is free, the one that overlaps least is taken. Call it when limits and layout are final.
    """
    figure: Any = axes.figure
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    radius = 4.0 * figure.dpi / 72.0
    places = axes.transData.transform([*obstacles]) if obstacles else []
    taken = [(x - radius, y - radius, x + radius, y + radius) for x, y in places]
    frame = axes.get_window_extent(renderer).extents
    for label in labels:
        taken.append(_place(axes, label, taken, tuple(frame), renderer))


Box = tuple[float, float, float, float]


def _place(axes: Axes, label: PointLabel, taken: list[Box], frame: Box, renderer: Any) -> Box:
    best: tuple[float, Any, Box] | None = None
    for step in _STEPS:
        for dx, dy, horizontal, vertical in _DIRECTIONS:
            note = _annotate(axes, label, dx * step, dy * step, horizontal, vertical, step > 1.0)
            x0, y0, x1, y1 = note.get_window_extent(renderer).extents
            box = (x0 - 1.0, y0 - 1.0, x1 + 1.0, y1 + 1.0)
            hidden = sum(_overlap(box, other) for other in taken) + 4.0 * _outside(box, frame)
            if best is None or hidden < best[0]:
                if best is not None:
                    best[1].remove()
                best = (hidden, note, box)
            else:
                note.remove()
            if best[0] == 0.0:
                return best[2]
    assert best is not None
    return best[2]


def _annotate(
    axes: Axes,
    label: PointLabel,
    dx: float,
    dy: float,
    horizontal: str,
    vertical: str,
    leader: bool,
) -> Any:
    from matplotlib.patheffects import withStroke

    line = {"arrowstyle": "-", "color": label.colour, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
    note: Any = axes.annotate(
        label.text,
        (label.x, label.y),
        xytext=(dx * _NEAR_POINTS, dy * _NEAR_POINTS),
        textcoords="offset points",
        ha=horizontal,
        va=vertical,
        color=label.colour,
        fontsize=8,
        fontweight="bold" if label.bold else "normal",
        arrowprops=line if leader else None,
        zorder=6,
    )
    note.set_in_layout(False)
    note.set_path_effects([withStroke(linewidth=2.0, foreground="white")])
    if leader:  # measure the text alone: a leader may cross others, a text may not
        return _TextOnly(note)
    return note


class _TextOnly:
    """An annotation measured without its leader line."""

    def __init__(self, note: Any) -> None:
        self._note = note

    def get_window_extent(self, renderer: Any) -> Any:
        from matplotlib.text import Text

        self._note.update_positions(renderer)
        return Text.get_window_extent(self._note, renderer)

    def remove(self) -> None:
        self._note.remove()


def _overlap(a: Box, b: Box) -> float:
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0 and height > 0 else 0.0


def _outside(box: Box, frame: Box) -> float:
    area = (box[2] - box[0]) * (box[3] - box[1])
    return max(area - _overlap(box, frame), 0.0) if _overlap(box, frame) < area - 1e-6 else 0.0
