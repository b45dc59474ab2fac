"""One figure over the years as a picture of a chart."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from arms.corpora.page_demo.world import Series
from arms.extras import not_importable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMS = ("bars", "horizontal bars", "line")
COLOURS = ("#31688e", "#b5485d", "#3a7d44", "#7a5195", "#8c6d1f")
_SIZE_INCHES = (6.4, 3.8)
_DPI = 120


def draw_chart(series: Series, owner: str, form: str, colour: str) -> bytes:
    """Return a PNG that names the owner, the figure, its unit, every year and every number.

    The bytes depend on the arguments and on matplotlib's version alone.

    Raises:
        MissingExtraError: matplotlib isn't installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise not_importable(error, "matplotlib", "demo") from error
    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _plot(axes, series, form, colour)
    axes.set_title(chart_title(series, owner), fontsize=13)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=12)
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def chart_title(series: Series, owner: str) -> str:
    """Return what stands above the chart."""
    return f"{owner}: {series.topic.lower()}, {series.unit}"


def _plot(axes: Axes, series: Series, form: str, colour: str) -> None:
    years = [str(year) for year in series.years]
    shown = [series.value(year) for year in series.years]
    top = max(series.numbers)
    if form == "line":
        axes.plot(years, series.numbers, marker="o", color=colour, linewidth=2.5)
        for year, number, text in zip(years, series.numbers, shown, strict=True):
            axes.annotate(
                text, (year, number), (0, 9), textcoords="offset points", ha="center", fontsize=13
            )
        axes.set_ylim(0, top * 1.25)
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
        return
    plot = axes.bar if form == "bars" else axes.barh
    axes.bar_label(plot(years, series.numbers, color=colour), shown, padding=3, fontsize=13)
    if form == "bars":
        axes.set_ylim(0, top * 1.15)
        axes.yaxis.set_visible(False)
        axes.spines["left"].set_visible(False)
    else:
        axes.set_xlim(0, top * 1.15)
        axes.xaxis.set_visible(False)
        axes.spines["bottom"].set_visible(False)
