"""Figures: the numbers drawn, labels apart, the same bytes twice, nothing global changed."""

import matplotlib
import numpy as np
import pytest

from analysis.figure_style import PALETTE, arm_styles, new_figure, report_style, text_colour
from analysis.figures import write_figures
from analysis.label_layout import PointLabel, place_labels
from analysis.operating_points import pareto_points
from analysis.pareto_figure import draw_pareto


def test_the_frontier_never_holds_an_oracle_and_nothing_beats_it(results):
    points = pareto_points(results.test)
    best = [point for point in points if point.on_frontier]
    assert best and not any(point.policy.startswith("oracle") for point in best)
    for point in points:
        if point.policy.startswith("oracle") or point.on_frontier:
            continue
        assert any(
            one.latency_ms <= point.latency_ms and one.quality >= point.quality for one in best
        )


def test_static_arms_stand_once_and_routers_at_every_lam(results):
    points = pareto_points(results.test)
    count = {name: sum(p.policy == name for p in points) for name in ("static:bm25", "router")}
    assert count == {"static:bm25": 1, "router": len(results.lams)}


def boxes_of(axes):
    renderer = axes.figure.canvas.get_renderer()
    return [note.get_window_extent(renderer) for note in axes.texts if note.get_text()]


def overlapping(boxes):
    return [
        (a, b)
        for i, a in enumerate(boxes)
        for b in boxes[i + 1 :]
        if a.x0 < b.x1 and b.x0 < a.x1 and a.y0 < b.y1 and b.y0 < a.y1
    ]


def test_labels_of_crowded_points_do_not_overlap():
    with report_style():
        axes = new_figure(6, 4).add_subplot()
        points = [(1 + 0.004 * i, 1 + 0.003 * (i % 3)) for i in range(8)]
        axes.plot(*zip(*points, strict=True), "o")
        axes.set(xlim=(0.8, 1.2), ylim=(0.8, 1.2))
        place_labels(axes, [PointLabel(x, y, "λ = 0.1", "black") for x, y in points], points)
        from matplotlib.text import Text

        renderer = axes.figure.canvas.get_renderer()
        boxes = [Text.get_window_extent(note, renderer) for note in axes.texts]
    assert len(boxes) == 8
    assert not overlapping(boxes)


def test_every_arm_and_lam_of_the_pareto_figure_is_named(results):
    with report_style():
        figure = draw_pareto(results)
    texts = " ".join(note.get_text() for note in figure.axes[0].texts)
    for arm in results.labels.pipelines:
        assert arm in texts
    assert "λ = 0" in texts and "0.5" in texts


@pytest.mark.slow
def test_the_same_numbers_give_the_same_bytes(results, tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_figures(results, tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(files) == 16
    for name in files:
        first = (tmp_path / "one" / name).read_bytes()
        assert first == (tmp_path / "two" / name).read_bytes(), name
        assert b"<dc:date>" not in first


def test_style_leaves_matplotlib_as_it_was():
    before = dict(matplotlib.rcParams)
    with report_style():
        assert matplotlib.rcParams["svg.hashsalt"] == "learning-to-route"
    assert dict(matplotlib.rcParams) == before


def test_forty_arms_look_different():
    styles = arm_styles([f"arm{i}" for i in range(40)])
    assert len(set(styles.values())) == 40


def test_text_reads_on_every_colour():
    from matplotlib.colors import to_rgb

    def luminance(colour):
        c = np.array(to_rgb(colour))
        return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) @ [
            0.2126,
            0.7152,
            0.0722,
        ]

    for colour in PALETTE:
        pair = sorted((luminance(colour), luminance(text_colour(colour))))
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, colour
