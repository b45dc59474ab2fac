"""All figures of a report, drawn and saved; matplotlib is imported when they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.content import FigureEntry
from analysis.figure_style import report_style, save
from analysis.merging import merging_policies
from analysis.query_groups import DATASET, DENSITY, LENGTH
from analysis.results import Results
from analysis.reward_map import MERGED
from arms.extras import not_importable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARETO = "pareto"
SHARES = "routing_share"
QUALITY = "dataset_quality"
REWARD_MAPS = "reward_maps"
AGREEMENT = "arm_agreement"
CALIBRATION = "calibration"
LENGTH_REGRET = "regret_by_length"
DATASET_REGRET = "regret_by_dataset"
DENSITY_QUALITY = "quality_by_density"
DENSITY_SHARES = "routing_share_by_density"

_MERGED_SHARES = " A merged answer counts under the arm that would have answered alone."
_MERGED_ROW = (
    f" The row '{MERGED}' holds the queries answered with a ranking of what several arms found."
)


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
        raise not_importable(error, "matplotlib", "report") from error
    return report_style()


Planned = tuple[FigureEntry, Callable[[], "Figure"]]


def planned_figures(results: Results) -> Iterator[Planned]:
    """Yield every figure of the report with what draws it."""
    yield from _main_figures(results)
    yield from _detail_figures(results)


def _main_figures(results: Results) -> Iterator[Planned]:
    from analysis.heatmap_figure import draw_dataset_quality, draw_dataset_shares
    from analysis.pareto_figure import draw_pareto, point_tips
    from analysis.share_figure import draw_shares

    measure = results.labels.primary_measure
    merges = merging_policies(results.test.shares)
    passed = ", but a policy that merges what several arms found may pass" if merges else ""
    merged = _MERGED_SHARES if results.router in merges else ""
    yield (
        FigureEntry(
            PARETO,
            f"Quality ({measure}) over mean latency, router overhead included, on the test split. "
            "Squares are arms, hollow ones lack some datasets; stars are oracles, which nobody "
            f"can deploy{passed}; the thick grey line is the Pareto frontier of everything else.",
            point_tips(results),
        ),
        partial(draw_pareto, results),
    )
    yield (
        FigureEntry(
            SHARES,
            f"Share of test queries answered by each arm as λ grows: {results.router}, and the "
            f"oracle over the same arms.{merged}",
        ),
        partial(draw_shares, results),
    )
    for lam in results.shown_lams:
        yield (
            FigureEntry(
                dataset_share_name(lam),
                f"Per dataset, the share of test queries sent to each arm at λ = {lam:g}, in "
                f"percent: {results.router} on the left, the oracle on the right.{merged}",
            ),
            partial(draw_dataset_shares, results, lam),
        )
    first = results.shown_lams[0]
    yield (
        FigureEntry(QUALITY, f"Mean {measure} of each policy in each dataset at λ = {first:g}."),
        partial(draw_dataset_quality, results, first),
    )


def _detail_figures(results: Results) -> Iterator[Planned]:
    from analysis.group_figure import draw_calibration, draw_group_quality, draw_group_regret
    from analysis.heatmap_figure import draw_agreement, draw_reward_maps
    from analysis.share_figure import draw_group_shares

    measure = results.labels.primary_measure
    found = results.details
    merged = _MERGED_SHARES if results.router in merging_policies(results.test.shares) else ""
    if found.reward_maps:
        in_row = any(MERGED in one.rows for one in found.reward_maps)
        yield (
            FigureEntry(
                REWARD_MAPS,
                "Mean reward of every arm (columns) over the queries sent to the arm of the row "
                f"(framed), at λ = {found.reward_maps[0].lam:g}. Where the framed cell is the "
                "darkest of its row, the choices are right on average."
                + (_MERGED_ROW if in_row else ""),
            ),
            partial(draw_reward_maps, results),
        )
    if DENSITY in found.groupings:
        yield (
            FigureEntry(
                DENSITY_QUALITY,
                f"Mean {measure} by visual density of the relevant pages, at "
                f"λ = {found.lost_lam:g}, over the queries that every arm has.",
            ),
            partial(draw_group_quality, results, DENSITY),
        )
        yield (
            FigureEntry(
                DENSITY_SHARES,
                f"Where {results.router} sends queries, by visual density of the relevant pages."
                + merged,
            ),
            partial(draw_group_shares, results, DENSITY),
        )
    yield (
        FigureEntry(
            AGREEMENT,
            "How often two arms both answer a query or both don't, in percent of the test queries "
            "that both were run on.",
        ),
        partial(draw_agreement, results),
    )
    if found.calibration is not None:
        yield (
            FigureEntry(
                CALIBRATION,
                f"Quality that {results.router} expects, and what came on test queries; bars are "
                "bootstrap intervals, the dotted line is where the two agree.",
            ),
            partial(draw_calibration, results),
        )
    for name, grouping in ((LENGTH_REGRET, LENGTH), (DATASET_REGRET, DATASET)):
        if grouping in found.groupings:
            yield (
                FigureEntry(
                    name,
                    f"Mean regret by {grouping}, against the oracle over A: {results.router} and "
                    "the best static arm. Bars are bootstrap intervals.",
                ),
                partial(draw_group_regret, results, grouping),
            )
