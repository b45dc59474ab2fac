"""Heat maps over datasets: where the router sends their queries, and how good each policy is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.dataset_tables import dataset_policies
from analysis.figure_style import PALETTE, new_figure, text_colour
from analysis.results import Results
from analysis.roles import ORACLE_ROUTER_ARMS, title_of
from analysis.summary import MICRO

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.evaluation import FloatArray

_COLOURS = "Blues"  # one hue, light to dark: reads the same with any colour vision and in grey


def draw_dataset_shares(results: Results, lam: float) -> Figure:
    """Share of each dataset's test queries per arm at ``lam``: the router beside the oracle."""
    datasets = results.test.scores.evaluation.dataset_names
    arms = results.labels.pipelines
    found = {
        (one.policy, one.scope): one.shares
        for one in results.test.shares
        if one.lam == lam and one.scope != MICRO
    }
    used = [i for i, arm in enumerate(arms) if arm in results.labels.router_arms]
    policies = (results.router, ORACLE_ROUTER_ARMS)
    figure = new_figure(2.6 + 0.62 * 2 * len(used) + 1.6, 1.9 + 0.28 * len(datasets))
    panels = figure.subplots(1, 2, sharey=True)
    nothing = (np.nan,) * len(arms)
    for axes, policy in zip(panels, policies, strict=True):
        shares = np.array([found.get((policy, dataset), nothing) for dataset in datasets])
        written = [[_percent(value) for value in row] for row in shares[:, used]]
        _draw(axes, shares[:, used], written, datasets, [arms[i] for i in used])
        axes.set_title(f"{title_of(policy)}, λ = {lam:g}")
    _bar(figure, panels, "share of queries")
    return figure


def draw_dataset_quality(results: Results, lam: float) -> Figure:
    """Quality of each policy in each dataset at ``lam``."""
    evaluation = results.test.scores.evaluation
    policies = dataset_policies(results)
    found = {
        (one.scope, one.policy): one.means.get(evaluation.primary_measure, np.nan)
        for one in results.test.per_dataset
        if one.lam == lam
    }
    quality = np.array(
        [
            [found.get((dataset, policy), np.nan) for policy in policies]
            for dataset in evaluation.dataset_names
        ]
    )
    counts = np.bincount(evaluation.dataset_codes, minlength=len(evaluation.dataset_names))
    rows = [f"{name}  (n = {n})" for name, n in zip(evaluation.dataset_names, counts, strict=True)]
    figure = new_figure(3.2 + 0.66 * len(policies), 2.1 + 0.28 * len(rows))
    axes = figure.subplots()
    written = [[_two_digits(value) for value in row] for row in quality]
    _draw(axes, quality, written, rows, [title_of(policy) for policy in policies])
    axes.set_title(f"mean {evaluation.primary_measure} at λ = {lam:g}")
    _bar(figure, [axes], evaluation.primary_measure)
    return figure


def draw_reward_maps(results: Results) -> Figure:
    """Reward of every arm (columns) on the queries sent to each arm (rows): oracle and router."""
    maps = results.details.reward_maps
    arms = results.labels.pipelines
    figure = new_figure(2.6 + 0.62 * len(maps) * len(arms) + 1.4, 2.2 + 0.34 * len(arms))
    panels = figure.subplots(1, len(maps), sharey=False, squeeze=False)[0]
    for axes, one in zip(panels, maps, strict=True):
        chosen = [i for i, n in enumerate(one.counts) if n]
        rows = [f"{one.rows[i]}  (n = {one.counts[i]:,})" for i in chosen]
        written = [[_two_digits(value) for value in row] for row in one.rewards[chosen]]
        _draw(axes, one.rewards[chosen], written, rows, arms)
        for place, i in enumerate(chosen):
            if i < len(arms):  # what was merged is no arm's column
                axes.add_patch(_frame(i, place))
        axes.set_title(f"{title_of(one.policy)}, λ = {one.lam:g}")
        axes.set_ylabel("arm chosen")
    _bar(figure, panels, "mean reward")
    return figure


def draw_agreement(results: Results) -> Figure:
    """Share of queries that two arms both answer, or both don't."""
    found = results.details.agreement
    figure = new_figure(3.0 + 0.66 * len(found.arms), 2.0 + 0.42 * len(found.arms))
    axes = figure.subplots()
    written = [[_percent(value) for value in row] for row in found.agreement]
    _draw(axes, found.agreement, written, found.arms, found.arms)
    axes.set_title("both answer, or neither: % of queries")
    _bar(figure, [axes], "share of queries")
    return figure


def _two_digits(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"


def _frame(column: int, row: int) -> Any:
    """A frame around one cell: the arm that was chosen."""
    from matplotlib.patches import Rectangle

    return Rectangle(
        (column + 0.04, row + 0.04), 0.92, 0.92, fill=False, edgecolor=PALETTE[5], linewidth=1.6
    )


def _percent(value: float) -> str:
    return "" if np.isnan(value) or value < 0.005 else f"{100 * value:.0f}"


def _draw(
    axes: Axes,
    values: FloatArray,
    written: Sequence[Sequence[str]],
    rows: Sequence[str],
    columns: Sequence[str],
) -> None:
    """One panel: values in [0, 1], NaN left blank, each cell with its number."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    colours = colormaps[_COLOURS]
    cells = np.ma.masked_invalid(values)
    axes.pcolormesh(cells, cmap=colours, vmin=0, vmax=1, edgecolors="white", linewidth=0.6)
    axes.set_ylim(len(rows), 0)  # the first row on top, as in a table
    for y, texts in enumerate(written):
        for x, text in enumerate(texts):
            background = to_hex(colours(float(np.nan_to_num(values[y, x]))))
            axes.text(
                x + 0.5,
                y + 0.5,
                text,
                ha="center",
                va="center",
                fontsize=7.5,
                color=text_colour(background),
            )
    axes.set_xticks(
        np.arange(len(columns)) + 0.5, columns, rotation=40, ha="right", rotation_mode="anchor"
    )
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _bar(figure: Figure, panels: Sequence[Axes], title: str) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    scale = ScalarMappable(Normalize(0, 1), _COLOURS)
    bar = figure.colorbar(scale, ax=list(panels), label=title, fraction=0.04, pad=0.02)
    bar.solids.set(rasterized=False, edgecolor="face")  # no bitmap inside the SVG
