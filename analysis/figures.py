"""All figures of a report, drawn and saved; matplotlib is imported when they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.content import FigureEntry
from analysis.figure_style import report_style, save
from analysis.results import Results
from arms.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARETO = "pareto"
SHARES = "routing_share"
QUALITY = "dataset_quality"


def dataset_share_name(lam: float) -> str:
    """File name of the routing heat map at ``lam``."""
    return f"dataset_share_lam_{lam:g}"


def write_figures(results: Results, folder: Path) -> dict[str, FigureEntry]:
    """Draw every figure into ``folder`` as PNG and SVG; return them by name.

    Raises:
        MissingExtraError: matplotlib isn't installed.
    """
    entries = {}
    with _matplotlib_style():
        for entry, draw in planned_figures(results):
            save(draw(), folder, entry.name)
            entries[entry.name] = entry
    return entries


def _matplotlib_style() -> AbstractContextManager[None]:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("matplotlib", "report") from error
    return report_style()


def planned_figures(results: Results) -> Iterator[tuple[FigureEntry, Callable[[], Figure]]]:
    """Yield every figure of the report with what draws it."""
    from analysis.heatmap_figure import draw_dataset_quality, draw_dataset_shares
    from analysis.pareto_figure import draw_pareto
    from analysis.share_figure import draw_shares

    measure = results.labels.primary_measure
    yield (
        FigureEntry(
            PARETO,
            f"Quality ({measure}) over mean latency, router overhead included, on the test split. "
            "Squares are arms, hollow ones lack some datasets; stars are oracles, which nobody "
            "can deploy; the thick grey line is the Pareto frontier of everything else.",
        ),
        partial(draw_pareto, results),
    )
    yield (
        FigureEntry(
            SHARES,
            f"Share of test queries answered by each arm as λ grows: {results.router}, and the "
            "oracle over the same arms.",
        ),
        partial(draw_shares, results),
    )
    for lam in results.shown_lams:
        yield (
            FigureEntry(
                dataset_share_name(lam),
                f"Per dataset, the share of test queries sent to each arm at λ = {lam:g}, in "
                f"percent: {results.router} on the left, the oracle on the right.",
            ),
            partial(draw_dataset_shares, results, lam),
        )
    first = results.shown_lams[0]
    yield (
        FigureEntry(QUALITY, f"Mean {measure} of each policy in each dataset at λ = {first:g}."),
        partial(draw_dataset_quality, results, first),
    )
